"""Tracks, cell by cell, against drawings made by hand."""

import pytest

from omni_cli.view.tracks import FAILED_STYLE, choose_window, draw_axis, draw_track, forward_style
from omni_cli.view.workers import FAILED, Block


def drawn(*blocks: Block, colour: bool = True) -> str:
    """Draw the seconds 100 to 110 in ten cells."""
    return draw_track(blocks, now=109.5, window=10, width=10, colour=colour).plain


def test_blocks_are_placed_to_half_a_cell() -> None:
    assert drawn(Block(101, 103, 1), Block(104.5, 106, 2), Block(108, 108.5, 3)) == " ██ ▐█  ▌ "


def test_work_shorter_than_half_a_cell_is_a_thin_line() -> None:
    assert drawn(Block(102.1, 102.2, 1), Block(105.8, 105.9, 1)) == "  ▏  ▕    "


def test_blocks_outside_the_window_are_not_drawn_and_long_ones_are_clipped() -> None:
    assert drawn(Block(1, 50, 1), Block(90, 102, 2), Block(108, 900, 3)) == "██      ██"


def test_neighbouring_forwards_share_a_cell_in_two_colours() -> None:
    track = draw_track([Block(100, 104.5, 1), Block(104.5, 110, 2)], now=109.5, window=10, width=10, colour=True)
    assert track.plain == "████▌█████"
    first, second, third = track.spans
    assert (first.style, third.style) == (forward_style(1), forward_style(2))
    assert not isinstance(second.style, str)
    assert (second.style.color, second.style.bgcolor) == (forward_style(1).color, forward_style(2).color)


def test_without_colour_neighbours_differ_in_shade() -> None:
    assert drawn(Block(100, 104, 1), Block(104, 110, 2), colour=False) == "▓▓▓▓██████"


def test_failed_forward_is_red() -> None:
    assert forward_style(FAILED) == FAILED_STYLE


def test_blocks_keep_their_shape_while_they_move() -> None:
    block = Block(103.3, 105.9, 1)
    shapes = {
        draw_track([block], now=now, window=10, width=10, colour=True).plain.strip() for now in (107.1, 108.4, 109.9)
    }
    assert len(shapes) == 1


@pytest.mark.parametrize(
    ("current", "forward_seconds", "window"),
    [(10, 0, 10), (10, 1, 10), (10, 3.3, 10), (10, 5, 60), (10, 0.2, 2), (10, 9999, 1800), (60, 5, 60)],
)
def test_window_changes_only_when_too_few_or_too_many_forwards_fit(
    current: float, forward_seconds: float, window: float
) -> None:
    assert choose_window(current, forward_seconds) == window


def test_axis_labels_start_middle_and_now() -> None:
    assert draw_axis(10, 30).plain == "−10 s        −5 s          now"
    assert draw_axis(10, 12).plain == "−10 s    now"
    assert draw_axis(10, 8).plain == "     now"
    assert [len(draw_axis(1800, width).plain) for width in range(1, 40)] == list(range(1, 40))
