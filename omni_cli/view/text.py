"""Text that is safe to show: data made printable, cut by terminal cells, and numbers with their units."""

import re

from rich.cells import cell_len, set_cell_size

# Control characters, line and paragraph separators, lone surrogates, bidi embeddings, overrides and isolates, and
# characters that show as nothing at all. Joiners, variation selectors and plain direction marks stay: scripts need them.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u202a-\u202e\u2066-\u2069"
    "\u200b\u2060-\u2064\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """`text` on one line, with all that could move the cursor, reorder or hide text replaced by something visible.

    C0 controls become their control pictures (ESC: ␛), the rest `<U+202E>`.
    """
    return _UNPRINTABLE.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"


def cells(text: str) -> int:
    """Terminal cells that `text` takes at most: terminals differ on joined emoji, so the larger of both counts."""
    return max(cell_len(text), sum(map(cell_len, text)))


def cut(text: str, width: int) -> str:
    """`text` made printable in at most `width` cells; what is left out of the end shows as an ellipsis."""
    clean, whole = _clip(text, width)
    if whole and cells(clean) <= width:
        return clean
    return _head(clean, width - 1) + "…" if width > 0 else ""


def cut_middle(text: str, width: int) -> str:
    """Like `cut`, but keeps both ends: ids and paths differ in their last characters."""
    clean, whole = _clip(text, width)
    if (whole and cells(clean) <= width) or width < 8:
        return cut(text, width)
    tail = _clip(text[-4 * width :], 4 * width)[0]
    room = (width - 1) // 2
    while cells(tail) > room or (tail and cell_len(tail[0]) == 0):
        tail = tail[1:]
    return f"{_head(clean, width - 1 - cells(tail))}…{tail}"


def fit(text: str, width: int) -> str:
    """`text` padded with spaces to `width` cells; it must not be wider."""
    return text + " " * (width - cells(text))


def _clip(text: str, width: int) -> tuple[str, bool]:
    """The printable beginning that `width` cells can need, and whether that is all: a letter may carry endless marks."""
    limit = 4 * max(width, 0) + 8
    return printable(text[:limit]), len(text) <= limit


def _head(clean: str, width: int) -> str:
    head = set_cell_size(clean, width) if cell_len(clean) > width else clean
    while cells(head) > width:
        head = head[:-1]
    return head.rstrip(" ")


def seconds(value: float) -> str:
    """A duration: `3 ms`, `4.2 s`, `42 s`, `3 min 20 s`, `2 h 05 min`."""
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 100:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def rate(per_second: float) -> str:
    """Requests per time, in the unit that keeps a digit before the point: `3.4/s`, `12/min`, `5.0/h`."""
    for value, unit in ((per_second, "s"), (per_second * 60, "min")):
        if value >= 1:
            return f"{_three(value)}/{unit}"
    return f"{_three(per_second * 3600)}/h"


def share(value: float) -> str:
    """A share of 0..1 in percent; one that is not quite all or nothing never reads as 100 or 0 %."""
    percent = 100 * value
    if 0 < percent < 0.5 or 99.5 <= percent < 100:
        return "<1 %" if percent < 1 else ">99 %"
    return f"{percent:.0f} %"


def size(count: int) -> str:
    """Bytes in binary units: `812 B`, `1.5 MiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{count} B" if unit == "B" else f"{_three(value)} {unit}"
        value /= 1024
    return f"{_three(value)} TiB"


def _three(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"
