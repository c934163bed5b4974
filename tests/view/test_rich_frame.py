"""Frames fit any terminal and show what each worker does."""

from collections.abc import Callable

import pytest

from omni_cli.events import (
    AnyEvent,
    ForwardDone,
    ForwardStarted,
    ModelLoading,
    ModelReady,
    RequestFinished,
    RunStarted,
)
from omni_cli.request import Interval
from omni_cli.view.rich_frame import draw_frame
from omni_cli.view.run_state import RunState
from omni_cli.view.wording import cells

HOSTILE = (
    "[bold red]x[/]\x1b[2J\n",
    "日本語の猫" * 20,
    "שלום עולם" * 9,
    "👩‍👩‍👧‍👦" * 30,
    "\u202e" + "e\u0301" * 400,
    "a" * 5000,
)


def rows(*groups: list[AnyEvent], width: int = 81, height: int = 24, now: float = 16, colour: bool = True) -> list[str]:
    state = RunState(clock=lambda: now)
    for event in (event for group in groups for event in group):
        state(event)
    frame = draw_frame(state.snapshot(), width=width, height=height, window=10, colour=colour).plain
    return [line.rstrip() for line in frame.split("\n")]


def test_frame_in_80_columns(opening: list[AnyEvent], middle: list[AnyEvent]) -> None:
    # 38 cells of 10/38 s: the forward of `a` starts in the right half of cell 22, its encode fills cells 30 to 33
    assert rows(opening, middle) == [
        "",
        "omni-gen demo · cpu",
        "━━━━━━━━━━━━━━━━━━──────────────────────────────────────  1/3  15/min  ETA 8.0 s",
        "▶ forward c                  4/8 ━━━━────                       ▐█████▌█████████",
        "⇣ D2H     b                                                           ▐█▏   ██",
        "✎ encode  b                                                             ████ ▕██",
        "output hidden 75 %, device idle 0 %       −10 s            −5 s              now",
    ]


def test_loading_shows_the_part_and_the_seconds(opening: list[AnyEvent]) -> None:
    assert rows(opening[:1], now=12)[-1] == "⠋ starting  2.0 s"
    assert rows(opening[:2], now=14)[-1] == "⠴ loading transformer  3.5 s"


def test_failed_and_cancelled_requests_are_counted_and_drawn_in_the_bar(
    opening: list[AnyEvent], finish: Callable[..., RequestFinished]
) -> None:
    events = [RunStarted(at=10, total=1000, skipped=0, model="demo", output_dir="o"), *opening[1:]]
    bar = rows(events, [finish("a", 13), finish("b", 14, "failed"), finish("c", 14, "cancelled")])[2]
    assert "3/1000  1 failed  1 cancelled" in bar
    done = rows(events, [finish(str(n), 13, "failed" if n == 7 else "done") for n in range(500)])[2]
    assert done.count("╍") == 1  # less than a cell, but not hidden


def test_an_unknown_total_has_no_bar_and_no_eta(finish: Callable[..., RequestFinished]) -> None:
    events: list[AnyEvent] = [
        RunStarted(at=10, total=None, skipped=0, model="demo", output_dir="o"),
        finish("a", 13),
        finish("b", 14),
    ]
    bar = rows(events)[2]
    assert "━" not in bar
    assert "ETA" not in bar
    assert "  2  " in bar


def test_a_forward_without_steps_shows_seconds(opening: list[AnyEvent]) -> None:
    assert "4.0 s" in rows(opening, [ForwardStarted(at=12, worker=0, ids=("a",))])[3]


def test_a_batch_shows_its_first_id_and_the_number_of_others(opening: list[AnyEvent]) -> None:
    row = rows(opening, [ForwardStarted(at=12, worker=0, ids=("a", "b", "c"))])[3]
    assert row.startswith("▶ forward a +2 ")


def fleet(count: int) -> list[AnyEvent]:
    events: list[AnyEvent] = [RunStarted(at=10, total=9, skipped=0, model="demo", output_dir="o")]
    for worker in range(count):
        events += [
            ModelReady(at=11, worker=worker, pipeline="P", device=f"cuda:{worker}", dtype="f", seconds=1),
            ForwardStarted(at=11, worker=worker, ids=(f"r{worker}",)),
        ]
    return events


@pytest.mark.parametrize(("count", "per_worker"), [(2, 3), (6, 3), (8, 2), (16, 1)])
def test_workers_get_fewer_lines_where_there_is_less_room(count: int, per_worker: int) -> None:
    lines = rows(fleet(count))
    assert sum("▶ forward" in line for line in lines) == count
    assert len(lines) == 3 + count * per_worker + 1


def test_workers_that_do_not_fit_are_counted() -> None:
    lines = rows(fleet(40))
    assert len(lines) == 23
    assert lines[-1] == "… and 21 more workers"


def test_a_loading_worker_is_shown_beside_running_ones() -> None:
    lines = rows(fleet(2), [ModelLoading(at=15, worker=2, what="vae")])
    assert "⠋ worker 2: loading vae  1.0 s" in lines


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("height", [1, 2, 3, 6, 24, 60])
@pytest.mark.parametrize("width", [1, 2, 5, 13, 24, 40, 80, 140, 300])
def test_frames_fit_any_terminal_with_any_text(
    width: int, height: int, colour: bool, opening: list[AnyEvent], finish: Callable[..., RequestFinished]
) -> None:
    events: list[AnyEvent] = [RunStarted(at=1, total=10**6, skipped=0, model=HOSTILE[1], output_dir=HOSTILE[0])]
    for n, name in enumerate(HOSTILE):
        events += [
            *opening[1:],
            ForwardStarted(at=12 + n, worker=n % 2, ids=(name,)),
            ForwardDone(at=13 + n, worker=n % 2, ids=(name,), forward=Interval(12 + n, 12.7 + n)),
            ModelLoading(at=1, worker=3, what=name),
        ]
    events += [ForwardStarted(at=14, worker=0, ids=HOSTILE), finish(HOSTILE[0], 15, "failed")]
    lines = rows(events, width=width, height=height, colour=colour)
    assert len(lines) <= max(1, height - 1)
    assert max(map(cells, lines)) <= max(1, width - 1)
    assert not any(c in line for line in lines for c in "\x1b\u202e\r")
