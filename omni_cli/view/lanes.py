"""Lanes: the last seconds of a worker's forwards and outputs as blocks over one time axis.

forward │████████▌███████▐████████│     a colour per forward; the D2H and encode of its requests carry the same one,
D2H     │        ▐▌      ▐        │     so it can be seen which output lies under which forward
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
FIRST_WINDOW = 10.0


def tone_style(tone: int) -> Style:
    """The colour of all work of one forward."""
    return FAILED_STYLE if tone == FAILED else PALETTE[tone % len(PALETTE)]


def next_window(current: float, typical: float) -> float:
    """Seconds that the lanes show: kept while 3 to 40 forwards of `typical` seconds fit, else enough for about 8."""
    if typical <= 0 or 3 * typical <= current <= 40 * typical:
        return current
    return next((window for window in WINDOWS if window >= 8 * typical), WINDOWS[-1])


def strip(blocks: Iterable[Block], *, now: float, window: float, width: int, colour: bool) -> Text:
    """The last `window` seconds of a lane in `width` cells, `now` in the rightmost.

    Cells stand on a fixed grid of the clock, so blocks keep their shape while they move left. Without `colour`
    neighbouring forwards differ in their shade.
    """
    half = window / width / 2
    base = (math.floor(now / half / 2) + 1 - width) * 2
    cover, best, tones = [0.0] * (2 * width), [0.0] * (2 * width), [0] * (2 * width)
    for block in blocks:
        begin, end = max(0.0, block.start / half - base), min(2.0 * width, block.end / half - base)
        for slot in range(math.floor(begin), math.ceil(end)):
            share = min(end, slot + 1) - max(begin, slot)
            cover[slot] += share
            if share > best[slot]:
                best[slot], tones[slot] = share, block.tone
    drawn = Text(no_wrap=True, overflow="crop", end="")
    glyphs = [_glyph(cover[n], cover[n + 1], tones[n], tones[n + 1], colour=colour) for n in range(0, 2 * width, 2)]
    for style, run in groupby(glyphs, key=lambda glyph: glyph[1]):
        drawn.append("".join(glyph for glyph, _ in run), style)
    return drawn


def _glyph(left: float, right: float, left_tone: int, right_tone: int, *, colour: bool) -> tuple[str, Style]:
    """One cell from the covered shares of its halves; work too short for a half shows as a thin line."""
    if left >= 0.5 and right >= 0.5:
        if left_tone == right_tone or not colour:
            return "█" if colour or left_tone % 2 == 0 else "▓", tone_style(left_tone)
        return "▌", tone_style(left_tone) + Style(bgcolor=tone_style(right_tone).color)
    if left >= 0.5:
        return "▌", tone_style(left_tone)
    if right >= 0.5:
        return "▐", tone_style(right_tone)
    if left or right:
        return ("▏", tone_style(left_tone)) if left >= right else ("▕", tone_style(right_tone))
    return " ", Style.null()


def axis(window: float, width: int) -> Text:
    """The time axis under the lanes: the window's start, its middle and now."""
    begin, middle = f"−{window:g} s", f"−{window / 2:g} s"
    line = begin
    if width >= len(begin) + len(middle) + 8:
        line = line.ljust(width // 2 - len(middle) // 2) + middle
    if width < len(begin) + 4:
        return Text("now".rjust(width)[-width:], DIM)
    return Text(line.ljust(width - 3) + "now", DIM)
