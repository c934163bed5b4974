"""The state behind the views."""

from collections.abc import Callable

from omni_cli.events import (
    AnyEvent,
    EncodeStarted,
    ForwardDone,
    ForwardStarted,
    ModelLoading,
    ModelSwitched,
    Note,
    OutputReady,
    PreviewWritten,
    RequestFinished,
)
from omni_cli.request import Interval
from omni_cli.view.board import MAX_FAILURE_LINES, MAX_LINES, Board
from omni_cli.view.workers import FAILED, Phase

Finish = Callable[..., RequestFinished]


def board_of(*groups: list[AnyEvent], now: float = 16) -> Board:
    board = Board(clock=lambda: now)
    for event in (event for group in groups for event in group):
        board(event)
    return board


def test_snapshot_says_where_each_request_is(opening: list[AnyEvent], middle: list[AnyEvent]) -> None:
    now = board_of(opening, middle).snapshot()
    (worker,) = now.workers
    assert [(flight.id, flight.phase, flight.since) for flight in worker.flights] == [
        ("b", Phase.ENCODE, 15.5),
        ("c", Phase.FORWARD, 15),
    ]
    assert (worker.step, worker.total) == (4, 8)
    assert [(block.start, block.end) for block in worker.lanes[Phase.FORWARD]] == [(12, 13.5), (13.5, 15)]
    assert [(block.start, block.end) for block in worker.lanes[Phase.ENCODE]] == [(14, 15)]
    assert worker.lanes[Phase.D2H][0].tone == worker.lanes[Phase.FORWARD][0].tone
    assert (now.done, now.left, now.per_second, now.eta) == (1, 2, 0.25, 8)


def test_events_of_one_request_in_any_order_never_move_it_back(opening: list[AnyEvent]) -> None:
    board = board_of(opening)
    board(ForwardStarted(at=12, worker=0, ids=("a",)))
    board(EncodeStarted(at=14, id="a"))  # the writer was quicker to say so than the pump
    board(OutputReady(at=13.9, worker=0, id="a", d2h=Interval(13, 13.9), bytes=1))
    board(ForwardDone(at=13, worker=0, ids=("a",), forward=Interval(12, 13)))
    (worker,) = board.snapshot().workers
    assert [flight.phase for flight in worker.flights] == [Phase.ENCODE]


def test_event_after_the_last_leaves_nothing_in_flight(opening: list[AnyEvent], finish: Finish) -> None:
    board = board_of(opening, [ForwardStarted(at=12, worker=0, ids=("a",)), finish("a", 14)])
    board(OutputReady(at=14, worker=0, id="a", d2h=Interval(13, 14), bytes=1))
    assert board.snapshot().workers[0].flights == ()


def test_failed_batch_is_one_red_block(opening: list[AnyEvent], finish: Finish) -> None:
    board = board_of(opening, [ForwardStarted(at=12, worker=0, ids=("a", "b"))])
    board(finish("a", 14, "failed"))
    board(finish("b", 14, "failed"))
    assert [tuple(block) for block in board.snapshot().workers[0].lanes[Phase.FORWARD]] == [(12, 14, FAILED)]


def test_restarted_worker_drops_its_forward_and_the_retry_counts_once(opening: list[AnyEvent]) -> None:
    board = board_of(opening, [ForwardStarted(at=12, worker=0, ids=("a",))])
    board(ModelLoading(at=13, worker=0, what="transformer"))
    (worker,) = board.snapshot().workers
    assert (worker.loading, worker.loading_since, worker.flights) == ("transformer", 13, ())
    board(ForwardStarted(at=15, worker=1, ids=("a",)))
    assert [[flight.id for flight in worker.flights] for worker in board.snapshot().workers] == [[], ["a"]]


def test_snapshot_is_not_changed_by_later_events(opening: list[AnyEvent], middle: list[AnyEvent]) -> None:
    board = board_of(opening, [ForwardStarted(at=12, worker=0, ids=("a",))])
    before = board.snapshot()
    for event in middle[1:]:
        board(event)
    assert [flight.phase for flight in before.workers[0].flights] == [Phase.FORWARD]
    assert before.workers[0].lanes[Phase.FORWARD] == ()


def test_rate_is_that_of_the_recent_requests(opening: list[AnyEvent], finish: Finish) -> None:
    slow = [finish(f"s{n}", 100 * n) for n in range(1, 100)]
    quick = [finish(f"q{n}", 10_000 + n / 10) for n in range(1, 301)]
    rate = board_of(opening, [*slow, *quick], now=10_030).snapshot().per_second
    assert rate is not None
    assert abs(rate - 10) < 1e-6


def test_failures_are_spelled_out_up_to_a_bound_and_always_counted(opening: list[AnyEvent], finish: Finish) -> None:
    board = board_of(opening, [finish(f"r{n}", 13, "failed") for n in range(500)])
    lines = [line.text for line in board.take_lines() if line.kind == "error"]
    assert (len(lines), lines[0]) == (MAX_FAILURE_LINES, "r0: write_failed: disk full")
    now = board.snapshot()
    assert ([failure.id for failure in now.failures], now.failed) == ([f"r{n}" for n in range(10)], 500)


def test_lines_that_nobody_takes_are_bounded_and_the_loss_is_said() -> None:
    board = board_of([Note(at=0, level="info", text=str(n)) for n in range(MAX_LINES + 7)])
    first, second, *_, last = board.take_lines()
    assert (first.text, second.text, last.text) == ("7 lines left out", "7", str(MAX_LINES + 6))
    assert board.take_lines() == []


def test_run_that_broke_off_gets_an_ending_with_what_was_seen(opening: list[AnyEvent], middle: list[AnyEvent]) -> None:
    ending = board_of(opening, middle).ending(130, "interrupted")
    assert ending is not None
    assert (ending.exit_code, ending.reason) == (130, "interrupted")
    assert (ending.done, ending.skipped, ending.not_run, ending.seconds) == (1, 2, 2, 4)
    assert ending.output_hidden == 1.5 / 2


def test_run_that_ended_gets_no_second_ending(opening: list[AnyEvent], closing: list[AnyEvent]) -> None:
    assert board_of(opening, closing).ending(3, "x") is None


def test_where_previews_lie_is_said_once(opening: list[AnyEvent]) -> None:
    board = board_of(opening)
    board.take_lines()
    for step in (1, 2):
        board(PreviewWritten(at=13, id="a", path="deep/[red]a.preview.png", step=step, total=8))
    (line,) = board.take_lines()
    assert line.kind == "info"
    assert line.text.endswith("/deep/[red]a.preview.png")


def test_a_switch_of_model_is_a_line(opening: list[AnyEvent]) -> None:
    board = board_of(opening)
    board.take_lines()
    board(ModelSwitched(at=13, model="owner/name"))
    assert [tuple(line) for line in board.take_lines()] == [("info", "switching to model owner/name")]
