"""Strips are drawn cell by cell as worked out by hand."""

import pytest

from omni_cli.view.lanes import FAILED_STYLE, axis, next_window, strip, tone_style
from omni_cli.view.workers import FAILED, Block


def drawn(*blocks: Block, colour: bool = True) -> str:
    """Ten cells of one second, 100 to 110."""
    return strip(blocks, now=109.5, window=10, width=10, colour=colour).plain


def test_blocks_stand_at_their_time_to_half_a_cell() -> None:
    assert drawn(Block(101, 103, 1), Block(104.5, 106, 2), Block(108, 108.5, 3)) == " ██ ▐█  ▌ "


def test_work_too_short_for_half_a_cell_is_a_thin_line_and_not_lost() -> None:
    assert drawn(Block(102.1, 102.2, 1), Block(105.8, 105.9, 1)) == "  ▏  ▕    "


def test_blocks_outside_the_window_are_not_drawn_and_long_ones_are_clipped() -> None:
    assert drawn(Block(1, 50, 1), Block(90, 102, 2), Block(108, 900, 3)) == "██      ██"


def test_neighbouring_forwards_share_a_cell_in_two_colours() -> None:
    line = strip([Block(100, 104.5, 1), Block(104.5, 110, 2)], now=109.5, window=10, width=10, colour=True)
    assert line.plain == "████▌█████"
    first, second, third = line.spans
    assert (first.style, third.style) == (tone_style(1), tone_style(2))
    assert not isinstance(second.style, str)
    assert (second.style.color, second.style.bgcolor) == (tone_style(1).color, tone_style(2).color)


def test_without_colour_neighbours_differ_in_shade() -> None:
    assert drawn(Block(100, 104, 1), Block(104, 110, 2), colour=False) == "▓▓▓▓██████"


def test_failed_forward_is_red() -> None:
    assert tone_style(FAILED) == FAILED_STYLE


def test_blocks_keep_their_shape_while_they_move() -> None:
    block = Block(103.3, 105.9, 1)
    shapes = {strip([block], now=now, window=10, width=10, colour=True).plain.strip() for now in (107.1, 108.4, 109.9)}
    assert len(shapes) == 1


@pytest.mark.parametrize(
    ("current", "typical", "wanted"),
    [(10, 0, 10), (10, 1, 10), (10, 3.3, 10), (10, 5, 60), (10, 0.2, 2), (10, 9999, 1800), (60, 5, 60)],
)
def test_window_changes_only_when_too_few_or_too_many_forwards_fit(
    current: float, typical: float, wanted: float
) -> None:
    assert next_window(current, typical) == wanted


def test_axis_names_begin_middle_and_now() -> None:
    assert axis(10, 30).plain == "−10 s        −5 s          now"
    assert axis(10, 12).plain == "−10 s    now"
    assert axis(10, 8).plain == "     now"
    assert [len(axis(1800, width).plain) for width in range(1, 40)] == list(range(1, 40))
