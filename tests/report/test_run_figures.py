"""Figures of runs from rows: those that the run itself has shown."""

import pytest
from msgspec import structs

from omni_cli.events import EncodeDone, ForwardDone, OutputArrived
from omni_cli.report.run_figures import run_figures
from omni_cli.request import Interval, Result, Starts, Timings
from omni_cli.trace import Timeline
from tests.factories import result
from tests.report.conftest import OutputFolder


def row(request_id: str, run: float, forward: float, worker: int = 0) -> Result:
    """Return a row of a forward of 2 s, then 0.5 s of D2H, 1 s of encoding and 0.5 s of writing."""
    starts = Starts(run=run, worker=worker, forward=forward, d2h=forward + 2, encode=forward + 2.5, write=forward + 3.5)
    return result(request_id, starts=starts, timings=Timings(forward=2, d2h=0.5, encode=1, write=0.5))


def test_figures_equal_those_of_the_run() -> None:
    rows = [row("a", 1, 10), row("b", 1, 12.25), row("c", 1, 15), row("d", 1, 10.5, worker=1)]
    timeline = Timeline()
    for each in rows:
        starts, name = each.starts, each.id
        assert starts is not None
        assert starts.worker is not None
        assert starts.forward is not None
        forward = Interval(starts.forward, starts.forward + 2)
        timeline(ForwardDone(at=0, worker=starts.worker, ids=(name,), forward=forward))
        d2h = Interval(forward.end, forward.end + 0.5)
        timeline(OutputArrived(at=0, worker=starts.worker, id=name, d2h=d2h, bytes=1))
        encode, write = Interval(d2h.end, d2h.end + 1), Interval(d2h.end + 1, d2h.end + 1.5)
        timeline(EncodeDone(at=0, id=name, encode=encode, write=write))
    expected = timeline.figures()
    (figures,) = run_figures(reversed(rows))
    assert figures.output_hidden == pytest.approx(expected.output_hidden)
    assert figures.device_idle == pytest.approx(expected.device_idle)
    assert figures.longest_gap == expected.longest_gap == 0.75
    assert (figures.forwards, figures.workers, figures.seconds) == (4, 2, 9)
    assert 0.2 < figures.output_hidden < 0.8


def test_a_batch_is_one_forward() -> None:
    (figures,) = run_figures([row("a", 1, 10), row("b", 1, 10), row("c", 1, 10, worker=1)])
    assert (figures.forwards, figures.forward_seconds, figures.requests) == (2, 4, 3)


def test_runs_are_told_apart_and_a_night_between_them_is_not_idle_time(folder: OutputFolder) -> None:
    rows = [row("b", 90_000, 90_010), row("a", 1, 10), result("old"), row("c", 90_000, 90_012)]
    first, second = run_figures(rows)
    assert (first.started, first.requests, first.device_idle) == (1, 1, 0)
    assert (second.requests, second.seconds, second.device_idle) == (2, 6, 0)


def test_failed_requests_and_outputs_are_counted(folder: OutputFolder) -> None:
    done = folder.done("a", "a-0.png", "a-1.png")
    assert done.starts is not None
    late = structs.replace(done.starts, encode=None, write=None)  # failed in the encoder
    rows = [done, result("b", "failed", starts=late, timings=done.timings)]
    rows.append(result("c", "failed", starts=Starts(run=done.starts.run)))  # failed in the forward
    (figures,) = run_figures(rows)
    assert (figures.outputs, figures.requests, figures.failed) == (2, 3, 2)
    assert figures.outputs_per_second == pytest.approx(2 / figures.seconds)


def test_a_run_in_which_nothing_came_of_any_request_has_figures() -> None:
    (figures,) = run_figures([result("a", "failed", starts=Starts(run=5.0))])
    assert (figures.started, figures.seconds, figures.failed, figures.forwards) == (5, 0, 1, 0)
    assert figures.output_hidden is figures.device_idle is None


def test_rows_without_times_have_no_figures() -> None:
    assert run_figures([result("a")]) == []
