"""Tracks: the last seconds of a worker's forwards and outputs, drawn as blocks over one time axis.

forward │████████▌███████▐████████│     a colour per forward; D2H and encode of its requests have the same one,
D2H     │        ▐▌      ▐        │     which shows the forward that hides each output
encode  │         ▐███    ████▌   │
"""

import math
from collections.abc import Iterable
from itertools import groupby

from rich.style import Style
from rich.text import Text

from omni_cli.view.workers import FAILED, Block

PALETTE = tuple(map(Style.parse, ("#2e9fd0", "#d7875f", "#5faf5f", "#af87d7", "#c9a227")))
FAILED_STYLE = Style.parse("red")
DIM = Style.parse("dim")

WINDOWS = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
INITIAL_WINDOW = 10.0
"""Seconds that tracks show."""


def forward_style(forward: int) -> Style:
    """Return the colour of all work of the forward with this number."""
    return FAILED_STYLE if forward == FAILED else PALETTE[forward % len(PALETTE)]


def choose_window(current: float, forward_seconds: float) -> float:
    """Return the seconds that tracks show: `current` while 3 to 40 forwards fit into it, else enough for about 8."""
    if forward_seconds <= 0 or 3 * forward_seconds <= current <= 40 * forward_seconds:
        return current
    return next((window for window in WINDOWS if window >= 8 * forward_seconds), WINDOWS[-1])


def draw_track(blocks: Iterable[Block], *, now: float, window: float, width: int, colour: bool) -> Text:
    """Draw the last `window` seconds of a track in `width` cells, with `now` in the rightmost.

    Cells lie on a fixed grid of the clock, so blocks keep their shape while they move left. Without `colour`,
    successive forwards differ in their shade.
    """
    half = window / width / 2
    first = (math.floor(now / half / 2) + 1 - width) * 2
    # Per half cell: the covered share, the largest share of one block, and that block's forward.
    covered, largest, forwards = [0.0] * (2 * width), [0.0] * (2 * width), [0] * (2 * width)
    for block in blocks:
        start, end = max(0.0, block.start / half - first), min(2.0 * width, block.end / half - first)
        for slot in range(math.floor(start), math.ceil(end)):
            share = min(end, slot + 1) - max(start, slot)
            covered[slot] += share
            if share > largest[slot]:
                largest[slot], forwards[slot] = share, block.forward
    glyphs = [
        _glyph(covered[n], covered[n + 1], forwards[n], forwards[n + 1], colour=colour) for n in range(0, 2 * width, 2)
    ]
    track = Text(no_wrap=True, overflow="crop", end="")
    for style, run in groupby(glyphs, key=lambda glyph: glyph[1]):
        track.append("".join(glyph for glyph, _ in run), style)
    return track


def _glyph(left: float, right: float, left_forward: int, right_forward: int, *, colour: bool) -> tuple[str, Style]:
    """Return a cell for the covered shares (0..1) of its halves; less than a half is drawn as a thin line."""
    if left >= 0.5 and right >= 0.5:
        if left_forward == right_forward or not colour:
            return "█" if colour or left_forward % 2 == 0 else "▓", forward_style(left_forward)
        return "▌", forward_style(left_forward) + Style(bgcolor=forward_style(right_forward).color)
    if left >= 0.5:
        return "▌", forward_style(left_forward)
    if right >= 0.5:
        return "▐", forward_style(right_forward)
    if left or right:
        return ("▏", forward_style(left_forward)) if left >= right else ("▕", forward_style(right_forward))
    return " ", Style.null()


def draw_axis(window: float, width: int) -> Text:
    """Draw the time axis below the tracks: the window's start, its middle and now."""
    start, middle = f"−{window:g} s", f"−{window / 2:g} s"
    line = start
    if width >= len(start) + len(middle) + 8:
        line = line.ljust(width // 2 - len(middle) // 2) + middle
    if width < len(start) + 4:
        return Text("now".rjust(width)[-width:], DIM)
    return Text(line.ljust(width - 3) + "now", DIM)
