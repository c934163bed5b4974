"""The figures of scripted runs, worked out by hand."""

import threading
import tracemalloc
from pathlib import Path

import pytest

from omni_cli.events import (
    EncodeDone,
    ForwardDone,
    ForwardStarted,
    ModelReady,
    OutputArrived,
    RequestFinished,
    RunStarted,
)
from omni_cli.request import Interval, Status, Timings
from omni_cli.trace import Timeline
from tests.factories import result


def finish(timeline: Timeline, request_id: str, at: float, status: Status = "done") -> None:
    timeline(RequestFinished(at=at, result=result(request_id, status, timings=Timings(queued=0.5))))


def forward(timeline: Timeline, worker: int, ids: str, start: float, end: float) -> None:
    names = tuple(ids)
    timeline(ForwardStarted(at=start, worker=worker, ids=names))
    timeline(ForwardDone(at=end, worker=worker, ids=names, forward=Interval(start, end)))


def output(timeline: Timeline, worker: int, name: str, *cuts: float) -> None:
    """Emit D2H, encode and write of request `name`, between the four times `cuts`, and its end."""
    a, b, c, d = cuts
    timeline(OutputArrived(at=b, worker=worker, id=name, d2h=Interval(a, b), bytes=1000))
    timeline(EncodeDone(at=d, id=name, encode=Interval(b, c), write=Interval(c, d)))
    finish(timeline, name, d)


def test_a_serial_run_hides_nothing_and_idles_during_every_output() -> None:
    timeline = Timeline()
    forward(timeline, 0, "a", 0, 10)
    output(timeline, 0, "a", 10, 12, 17, 18)
    forward(timeline, 0, "b", 18, 28)
    output(timeline, 0, "b", 28, 30, 35, 36)
    figures = timeline.figures()
    assert figures.output_hidden == 0
    assert figures.device_idle == pytest.approx(8 / 28)
    assert figures.longest_gap == 8
    assert (figures.forwards, figures.forward_seconds) == (2, 20)
    assert (figures.d2h_seconds, figures.encode_seconds, figures.write_seconds) == (4, 10, 2)
    assert figures.bytes_moved == 2000
    assert figures.wall_seconds == 36
    assert figures.requests_per_second == pytest.approx(2 / 36)


def test_an_overlapped_run_hides_all_but_the_last_output() -> None:
    timeline = Timeline()
    forward(timeline, 0, "a", 0, 10)
    timeline(ForwardStarted(at=10, worker=0, ids=("b",)))
    output(timeline, 0, "a", 10, 12, 17, 18)  # all its events precede the end of the forward that hides it
    timeline(ForwardDone(at=20, worker=0, ids=("b",), forward=Interval(10, 20)))
    output(timeline, 0, "b", 20, 22, 27, 28)
    figures = timeline.figures()
    assert figures.output_hidden == 0.5
    assert figures.device_idle == 0
    assert figures.longest_gap == 0


def test_each_request_of_a_batch_counts_its_own_output() -> None:
    timeline = Timeline()
    forward(timeline, 0, "ab", 0, 10)
    forward(timeline, 0, "cd", 10, 20)
    output(timeline, 0, "a", 10, 11, 16, 16)
    output(timeline, 0, "b", 11, 12, 22, 22)
    figures = timeline.figures()
    assert figures.forwards == 2
    assert figures.output_hidden == pytest.approx((1 + 5 + 1 + 8) / (1 + 5 + 1 + 10))


def test_output_is_not_hidden_by_the_forwards_of_another_worker() -> None:
    timeline = Timeline()
    forward(timeline, 0, "a", 0, 10)
    forward(timeline, 1, "b", 0, 30)
    output(timeline, 0, "a", 10, 12, 18, 20)
    forward(timeline, 0, "c", 16, 26)
    figures = timeline.figures()
    assert figures.output_hidden == pytest.approx(4 / 10)
    assert figures.device_idle == pytest.approx(6 / (26 + 30))
    assert figures.longest_gap == 6


def test_a_retried_request_counts_for_the_worker_that_computed_it_last() -> None:
    timeline = Timeline()
    timeline(ForwardStarted(at=0, worker=0, ids=("a",)))  # this worker dies
    forward(timeline, 1, "a", 5, 10)
    forward(timeline, 1, "b", 10, 20)
    output(timeline, 1, "a", 10, 11, 14, 15)
    assert timeline.figures().output_hidden == 1


def test_an_empty_run_has_no_shares() -> None:
    timeline = Timeline()
    timeline(RunStarted(at=5, total=0, skipped=3, model="demo", output_dir="o"))
    figures = timeline.figures()
    assert (figures.output_hidden, figures.device_idle, figures.longest_gap) == (None, None, None)
    assert (figures.wall_seconds, figures.requests_per_second) == (0, 0)


def test_wall_time_begins_when_the_first_model_is_ready() -> None:
    timeline = Timeline()
    timeline(RunStarted(at=100, total=2, skipped=0, model="demo", output_dir="o"))
    for worker, at in ((1, 130.0), (0, 140.0)):
        timeline(ModelReady(at=at, worker=worker, pipeline="P", device="cpu", dtype="f", seconds=1))
    finish(timeline, "a", 150)
    finish(timeline, "b", 150, "failed")
    finish(timeline, "c", 150, "cancelled")
    figures = timeline.figures()
    assert figures.wall_seconds == 20
    assert (figures.done, figures.failed, figures.cancelled) == (1, 1, 1)
    assert figures.requests_per_second == pytest.approx(1 / 20)


def test_memory_does_not_grow_with_the_number_of_requests() -> None:
    timeline = Timeline()

    def render(first: int, count: int) -> None:
        for n in range(first, first + count):
            timeline(ForwardStarted(at=n, worker=0, ids=(f"r{n}",)))
            timeline(ForwardDone(at=n + 1, worker=0, ids=(f"r{n}",), forward=Interval(n, n + 1)))
            timeline(OutputArrived(at=n + 2, worker=0, id=f"r{n}", d2h=Interval(n + 1, n + 2), bytes=1))
            finish(timeline, f"r{n}", n + 2)

    render(0, 2000)
    tracemalloc.start()
    render(2000, 4000)
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert grown < 500_000  # 4000 requests kept would be several megabytes
    assert timeline.figures().done == 6000


def test_events_from_several_threads_are_all_counted() -> None:
    timeline = Timeline()

    def work(worker: int) -> None:
        for n in range(300):
            forward(timeline, worker, "x", n, n + 0.5)
            finish(timeline, f"{worker}/{n}", n)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures = timeline.figures()
    assert (figures.forwards, figures.done, figures.forward_seconds) == (1200, 1200, 600)


def test_a_trace_without_spans_raises(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep_spans"):
        Timeline().write_chrome_trace(tmp_path / "t.json")
