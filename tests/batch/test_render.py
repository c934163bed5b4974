"""The main loop: bounded, in completion order, and it ends well however it ends."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omni_cli.batch import Desk, Stop, render
from omni_cli.errors import ForwardError, WorkerDied
from omni_cli.events import AnyEvent, Note
from omni_cli.request import PlannedRequest, Result
from tests.batch.conftest import PATIENCE_S, FakeExecutor, planned


class Source:
    """Calls of one request each; counts how many were taken."""

    def __init__(self, *ids: str, fault: Exception | None = None) -> None:
        self.taken = 0
        self._ids = ids
        self._fault = fault

    def __iter__(self) -> Iterator[Sequence[PlannedRequest]]:
        for id_ in self._ids:
            self.taken += 1
            yield [planned(id_)]
        if self._fault is not None:
            raise self._fault


def test_rows_come_in_completion_order(executor: FakeExecutor, desk: Desk) -> None:
    rows = render(Source("a", "b", "c"), executor, desk, Stop(), window=10)
    with ThreadPoolExecutor(1) as reader:
        first = reader.submit(next, rows)
        executor.wait_until_submitted(3)
        for id_ in "bac":
            executor.finish(id_)
            assert first.result(PATIENCE_S).id == id_
            first = reader.submit(lambda: next(rows, None))
        assert first.result(PATIENCE_S) is None


def test_no_more_than_the_window_is_open_and_the_source_is_not_read_ahead(executor: FakeExecutor, desk: Desk) -> None:
    source = Source(*"abcdefgh")
    rows = render(source, executor, desk, Stop(), window=3)
    done: list[str] = []
    reader = threading.Thread(target=lambda: done.extend(row.id for row in rows))
    reader.start()
    executor.wait_until_submitted(3)
    assert source.taken <= 4
    for count, id_ in enumerate("abcdefgh", 1):
        executor.wait_until_submitted(min(count + 2, 8))
        assert len(executor.submitted) <= count + 2
        executor.finish(id_)
    reader.join(PATIENCE_S)
    assert sorted(done) == list("abcdefgh")


def test_a_call_larger_than_the_window_goes_alone(executor: FakeExecutor, desk: Desk) -> None:
    executor.on_submit = executor.finish
    calls = [[planned("a")], [planned(f"b{n}") for n in range(5)], [planned("c")]]
    assert len(list(render(calls, executor, desk, Stop(), window=2))) == 7
    assert [len(call) for call in executor.submitted] == [1, 5, 1]


def test_a_failed_request_is_a_row_among_others(executor: FakeExecutor, desk: Desk) -> None:
    executor.on_submit = lambda id_: executor.fail(id_, ForwardError("x")) if id_ == "b" else executor.finish(id_)
    results = {row.id: row.status for row in render(Source("a", "b", "c"), executor, desk, Stop(), window=1)}
    assert results == {"a": "done", "b": "failed", "c": "done"}


def test_after_a_stop_the_running_one_is_finished_the_waiting_dropped_and_nothing_submitted(
    executor: FakeExecutor, desk: Desk, events: list[AnyEvent]
) -> None:
    stop, source = Stop(), Source(*"abcdef")
    rows = render(source, executor, desk, stop, window=3)
    with ThreadPoolExecutor(1) as reader:
        results = reader.submit(lambda: {row.id: row.status for row in rows})
        executor.wait_until_submitted(3)
        executor.begin("a")
        stop.request()
        executor.wait_until_nothing_waits()
        executor.handles["a"].output_ready.set_result(executor.memory.output(executor.handles["a"].planned))
        assert results.result(PATIENCE_S) == {"a": "done", "b": "cancelled", "c": "cancelled"}
    assert len(executor.submitted) == 3
    assert [event.text for event in events if isinstance(event, Note)] == [
        "stopping: no new forwards, finishing what is computed; Ctrl-C again stops at once"
    ]


def test_a_stop_before_the_first_request_submits_nothing(executor: FakeExecutor, desk: Desk) -> None:
    stop = Stop()
    stop.request()
    assert list(render(Source("a", "b"), executor, desk, stop, window=3)) == []
    assert executor.submitted == []


def test_when_the_engine_dies_what_is_there_is_finished_before_its_error_is_raised(
    executor: FakeExecutor, desk: Desk
) -> None:
    def on_submit(id_: str) -> None:
        if id_ == "b":
            executor.finish("a")
            executor.fail("b", WorkerDied("gone"))
            executor.broken = WorkerDied("gone")

    executor.on_submit = on_submit
    results: list[str] = []
    with pytest.raises(WorkerDied, match="gone"):
        results.extend(row.id for row in render(Source(*"abcdef"), executor, desk, Stop(), window=2))
    assert results == ["a"]
    assert executor.submitted == [["a"], ["b"]]


def test_an_engine_that_is_dead_at_submit_ends_the_run_after_the_open_ones(executor: FakeExecutor, desk: Desk) -> None:
    results: list[str] = []

    def on_submit(id_: str) -> None:
        executor.broken = WorkerDied("gone")

    executor.on_submit = on_submit

    def read() -> None:
        results.extend(row.id for row in render(Source("a", "b", "c"), executor, desk, Stop(), window=5))

    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(read)
        executor.wait_until_submitted(1)
        executor.finish("a")
        with pytest.raises(WorkerDied, match="gone"):
            reading.result(PATIENCE_S)
    assert results == ["a"]


def test_whoever_leaves_the_loop_early_leaves_no_output_behind(
    executor: FakeExecutor, desk: Desk, rows: list[Result], tmp_path: Path
) -> None:
    def on_submit(id_: str) -> None:
        if id_ == "a":
            executor.finish("a")
        if id_ == "d":
            executor.begin("b")  # runs while the caller leaves

    executor.on_submit = on_submit
    running = render(Source(*"abcdefgh"), executor, desk, Stop(), window=5)
    assert next(running).id == "a"
    executor.on_submit = lambda id_: None
    if "b" in executor.waiting:
        executor.begin("b")
    leaving = threading.Thread(target=running.close)
    leaving.start()
    executor.wait_until_nothing_waits()
    executor.handles["b"].output_ready.set_result(executor.memory.output(executor.handles["b"].planned))
    leaving.join(PATIENCE_S)
    assert not leaving.is_alive()
    assert sorted(row.id for row in rows) == ["a", "b"]
    assert (tmp_path / "b.png").exists()
    assert executor.memory.held == []
    again = render(Source("x"), executor, desk, Stop(), window=5)
    executor.on_submit = executor.finish
    assert [row.id for row in again] == ["x"]


def test_a_source_that_raises_leaves_no_output_behind_either(
    executor: FakeExecutor, desk: Desk, rows: list[Result]
) -> None:
    executor.on_submit = lambda id_: executor.finish(id_) if id_ == "a" else None
    with pytest.raises(OSError, match="read error"):
        list(render(Source("a", "b", fault=OSError("read error")), executor, desk, Stop(), window=5))
    assert executor.handles["b"].output_ready.cancelled()
    assert [row.id for row in rows] == ["a"]
    assert executor.memory.held == []
    assert desk.ended.empty()
