"""The state of a run that views show."""

from collections.abc import Callable

import pytest

from omni_cli.events import (
    AnyEvent,
    EncodeStarted,
    ForwardDone,
    ForwardStarted,
    ModelLoading,
    ModelSwitched,
    Note,
    OutputArrived,
    PreviewWritten,
    RequestFinished,
    RunStopping,
)
from omni_cli.request import Interval
from omni_cli.view.run_state import MAX_FAILURE_LINES, MAX_LINES, RunState
from omni_cli.view.workers import FAILED, WorkerPhase

Finish = Callable[..., RequestFinished]


def state_of(*groups: list[AnyEvent], now: float = 16) -> RunState:
    state = RunState(clock=lambda: now)
    for event in (event for group in groups for event in group):
        state(event)
    return state


def test_snapshot_has_the_phase_of_each_request(opening: list[AnyEvent], middle: list[AnyEvent]) -> None:
    run = state_of(opening, middle).snapshot()
    (worker,) = run.workers
    assert [(request.id, request.phase, request.since) for request in run.in_flight] == [
        ("b", WorkerPhase.ENCODE, 15.5),
        ("c", WorkerPhase.FORWARD, 15),
    ]
    assert (worker.step, worker.total_steps) == (4, 8)
    assert [(block.start, block.end) for block in worker.tracks[WorkerPhase.FORWARD]] == [(12, 13.5), (13.5, 15)]
    assert [(block.start, block.end) for block in worker.tracks[WorkerPhase.ENCODE]] == [(14, 15)]
    assert worker.tracks[WorkerPhase.D2H][0].forward == worker.tracks[WorkerPhase.FORWARD][0].forward
    assert (run.figures.done, run.remaining, run.per_second, run.eta) == (1, 2, 0.25, 8)


def test_events_of_one_request_in_any_order_never_move_it_back(opening: list[AnyEvent]) -> None:
    state = state_of(opening)
    state(ForwardStarted(at=12, worker=0, ids=("a",)))
    state(EncodeStarted(at=14, id="a"))  # reported by the writer before the pump reported the copy
    state(OutputArrived(at=13.9, worker=0, id="a", d2h=Interval(13, 13.9), bytes=1))
    state(ForwardDone(at=13, worker=0, ids=("a",), forward=Interval(12, 13)))
    assert [request.phase for request in state.snapshot().in_flight] == [WorkerPhase.ENCODE]


def test_an_event_after_the_last_one_leaves_nothing_in_flight(opening: list[AnyEvent], finish: Finish) -> None:
    state = state_of(opening, [ForwardStarted(at=12, worker=0, ids=("a",)), finish("a", 14)])
    state(OutputArrived(at=14, worker=0, id="a", d2h=Interval(13, 14), bytes=1))
    assert state.snapshot().in_flight == ()


def test_a_failed_batch_is_one_failed_block(opening: list[AnyEvent], finish: Finish) -> None:
    state = state_of(opening, [ForwardStarted(at=12, worker=0, ids=("a", "b"))])
    state(finish("a", 14, "failed"))
    state(finish("b", 14, "failed"))
    assert [tuple(block) for block in state.snapshot().workers[0].tracks[WorkerPhase.FORWARD]] == [(12, 14, FAILED)]


def test_a_restarted_worker_drops_its_forward_and_the_retry_counts_once(opening: list[AnyEvent]) -> None:
    state = state_of(opening, [ForwardStarted(at=12, worker=0, ids=("a",))])
    state(ModelLoading(at=13, worker=0, what="transformer"))
    run = state.snapshot()
    (worker,) = run.workers
    assert (worker.loading, worker.loading_since, run.in_flight) == ("transformer", 13, ())
    state(ForwardStarted(at=15, worker=1, ids=("a",)))
    assert [(request.id, request.worker) for request in state.snapshot().in_flight] == [("a", 1)]


def test_snapshot_is_not_changed_by_later_events(opening: list[AnyEvent], middle: list[AnyEvent]) -> None:
    state = state_of(opening, [ForwardStarted(at=12, worker=0, ids=("a",))])
    before = state.snapshot()
    for event in middle[1:]:
        state(event)
    assert [request.phase for request in before.in_flight] == [WorkerPhase.FORWARD]
    assert not before.workers[0].tracks[WorkerPhase.FORWARD]


def test_rate_is_that_of_the_recent_requests(opening: list[AnyEvent], finish: Finish) -> None:
    slow = [finish(f"s{n}", 100 * n) for n in range(1, 100)]
    quick = [finish(f"q{n}", 10_000 + n / 10) for n in range(1, 301)]
    rate = state_of(opening, [*slow, *quick], now=10_030).snapshot().per_second
    assert rate is not None
    assert abs(rate - 10) < 1e-6


def test_cancelled_requests_count_for_neither_rate_nor_eta(opening: list[AnyEvent], finish: Finish) -> None:
    """Three requests, of which two are cancelled at once, while the first takes 28 s."""
    cancelled = [finish("b", 13, "cancelled"), finish("c", 13, "cancelled")]
    run = state_of(opening, cancelled, now=14).snapshot()
    assert (run.finished, run.remaining, run.per_second, run.eta) == (2, 1, None, None)
    run = state_of(opening, [*cancelled, finish("a", 40)], now=40).snapshot()
    assert run.per_second == pytest.approx(1 / 28)


def test_a_run_that_is_being_stopped_has_no_eta(opening: list[AnyEvent], middle: list[AnyEvent]) -> None:
    state = state_of(opening, middle, [RunStopping(at=16, seconds=12.3)], now=16)
    run = state.snapshot()
    assert (run.stopping, run.per_second, run.eta) == (True, 0.25, None)
    assert state.take_lines()[-1].text == "stopping: finishes what runs, at most about 12 s; Ctrl-C again stops at once"


def test_failures_are_listed_up_to_a_limit_and_always_counted(opening: list[AnyEvent], finish: Finish) -> None:
    state = state_of(opening, [finish(f"r{n}", 13, "failed") for n in range(500)])
    lines = [line.text for line in state.take_lines() if line.kind == "error"]
    assert (len(lines), lines[0]) == (MAX_FAILURE_LINES, "r0: write_failed: disk full")
    run = state.snapshot()
    assert ([failure.id for failure in run.failures], run.figures.failed) == ([f"r{n}" for n in range(10)], 500)


def test_waiting_lines_are_bounded_and_dropped_ones_counted() -> None:
    state = state_of([Note(at=0, level="info", text=str(n)) for n in range(MAX_LINES + 7)])
    first, second, *_, last = state.take_lines()
    assert (first.text, second.text, last.text) == ("7 lines left out", "7", str(MAX_LINES + 6))
    assert state.take_lines() == []


def test_a_run_without_an_end_gets_one_with_what_was_seen(opening: list[AnyEvent], middle: list[AnyEvent]) -> None:
    end = state_of(opening, middle).missing_end(130, "interrupted")
    assert end is not None
    assert (end.exit_code, end.reason) == (130, "interrupted")
    assert (end.done, end.skipped, end.not_run, end.seconds) == (1, 2, 2, 4)
    assert end.output_hidden == 1.5 / 2


def test_a_run_that_ended_gets_no_second_end(opening: list[AnyEvent], closing: list[AnyEvent]) -> None:
    assert state_of(opening, closing).missing_end(3, "x") is None


def test_the_path_of_previews_is_shown_once(opening: list[AnyEvent]) -> None:
    state = state_of(opening)
    state.take_lines()
    for step in (1, 2):
        state(PreviewWritten(at=13, id="a", path="deep/[red]a.preview.png", step=step, total=8))
    (line,) = state.take_lines()
    assert line.kind == "info"
    assert line.text.endswith("/deep/[red]a.preview.png")


def test_a_switch_of_model_is_a_line(opening: list[AnyEvent]) -> None:
    state = state_of(opening)
    state.take_lines()
    state(ModelSwitched(at=13, model="owner/name"))
    assert [tuple(line) for line in state.take_lines()] == [("info", "switching to model owner/name")]
