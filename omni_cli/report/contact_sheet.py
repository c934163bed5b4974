"""Contact sheets as pictures: scaled outputs in a grid, with headings and captions."""

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omni_cli.cores import usable_cores
from omni_cli.errors import UsageError
from omni_cli.log import logger
from omni_cli.report.first_picture import first_picture, frame_pictures
from omni_cli.report.sheet_cells import SheetGrid, SheetOutput
from omni_cli.text import printable

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

    Font = FreeTypeFont | ImageFont

MAX_SIDE = 32_000
"""Longest side of a sheet in pixels: what viewers still open."""

LEAST_BOX = 64
"""Least width of a picture's box in pixels: room for a caption."""

GAP = 6
MARGIN = 12
_GROUND, _TEXT, _QUIET, _EMPTY = "#ffffff", "#1b1d20", "#565b62", "#e8e8e4"
_MAX_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class SheetStyle:
    """`size` is the longest side of a picture in pixels, `caption` the field below it ("" for none), `strip` the number
    of frames of a clip, side by side. `font` is a file of a TrueType or OpenType font.
    """

    size: int = 256
    caption: str = "id"
    strip: int = 1
    font: Path | None = None


class SheetCanvas:
    """A sheet with its headings and captions, and the boxes of its cells, in pixels."""

    def __init__(self, grid: SheetGrid, style: SheetStyle) -> None:
        """Lay the sheet out. Raises UsageError if it is too large, or the font cannot be read."""
        self.grid, self.style = grid, style
        self._font = _load_font(style.font, max(11, style.size // 16))
        self._line = int(1.2 * self._font.getbbox("Ag")[3])
        self._box = self._picture_box()
        self._cell_width = self._box[0] * style.strip + (style.strip - 1) * (GAP // 2)
        self._cell_height = self._box[1] + (self._line + GAP if style.caption else 0)
        self._left = MARGIN + (self._heading_width() if grid.lines else 0)
        self._top = MARGIN + (self._line + GAP if grid.columns else 0)
        width = self._left + grid.width * (self._cell_width + GAP) - GAP + MARGIN
        height = self._top + len(grid.cells) * (self._cell_height + GAP) - GAP + MARGIN
        self.size = (width + width % 2, height + height % 2)  # even, as video needs it
        if max(self.size) > MAX_SIDE:
            raise UsageError(
                f"the sheet would have {width} x {height} pixels, more than {MAX_SIDE} a side: choose a smaller --size,"
                " fewer outputs (--id, --limit), or no field with so many values"
            )

    def blank(self) -> "Image":
        """Return the sheet with its headings and captions, without pictures."""
        from PIL import Image, ImageDraw  # loaded only where files are shown

        sheet = Image.new("RGB", self.size, _GROUND)
        draw = ImageDraw.Draw(sheet)
        for column, text in enumerate(self.grid.columns):
            self._write(draw, text, self._left + column * (self._cell_width + GAP), MARGIN, self._cell_width)
        for number, text in enumerate(self.grid.lines):
            top = self._top + number * (self._cell_height + GAP)
            self._write(draw, text, MARGIN, top, self._left - MARGIN - GAP)
        for output, (left, top) in self.places():
            if self.style.caption:
                below = top + self._box[1] + GAP // 2
                self._write(draw, output.value(self.style.caption), left, below, self._cell_width, _QUIET)
        return sheet

    def places(self) -> "Iterator[tuple[SheetOutput, tuple[int, int]]]":
        """Yield each output and the upper left corner of its cell."""
        for number, line in enumerate(self.grid.cells):
            for column, output in enumerate(line):
                if output is not None:
                    left = self._left + column * (self._cell_width + GAP)
                    yield output, (left, self._top + number * (self._cell_height + GAP))

    def paste(self, sheet: "Image", corner: tuple[int, int], pictures: "Sequence[Image]") -> None:
        """Paste the pictures of a cell side by side, each in the middle of its box."""
        for number, picture in enumerate(pictures):
            if picture.width > self._box[0] or picture.height > self._box[1]:  # not the size that its row says
                picture.thumbnail(self._box)
            left = corner[0] + number * (self._box[0] + GAP // 2) + (self._box[0] - picture.width) // 2
            top = corner[1] + (self._box[1] - picture.height) // 2
            sheet.paste(picture, (left, top), picture if picture.mode == "RGBA" else None)

    def paste_reason(self, sheet: "Image", corner: tuple[int, int], reason: str) -> None:
        """Fill a cell that has no picture with the reason."""
        from PIL import ImageDraw

        draw, (left, top) = ImageDraw.Draw(sheet), corner
        draw.rectangle((left, top, left + self._cell_width - 1, top + self._box[1] - 1), _EMPTY)
        middle = top + (self._box[1] - self._line) // 2
        self._write(draw, reason, left + GAP, middle, self._cell_width - 2 * GAP, _QUIET)

    def _picture_box(self) -> tuple[int, int]:
        """Return the width and height that every scaled picture fits in."""
        sizes = [
            (round(file.width * scale), round(file.height * scale))
            for line in self.grid.cells
            for file in (output.file for output in line if output is not None)
            if file is not None and file.width and file.height
            for scale in [min(1.0, self.style.size / max(file.width, file.height))]
        ]
        width = max((size[0] for size in sizes), default=0)
        return max(width, LEAST_BOX), max((size[1] for size in sizes), default=LEAST_BOX // 2)

    def _heading_width(self) -> int:
        longest = max(round(self._font.getlength(_clean(text))) for text in self.grid.lines)
        return min(longest, 2 * self.style.size) + 2 * GAP

    def _write(self, draw: "ImageDraw", text: str, left: int, top: int, width: int, colour: str = _TEXT) -> None:
        """Write one line of foreign text, cut to `width` pixels."""
        text = _clean(text)
        if self._font.getlength(text) > width:
            while text and self._font.getlength(f"{text}…") > width:
                text = text[:-1]
            text += "…"
        draw.text((left, top), text, colour, self._font)


def draw_sheet(canvas: SheetCanvas) -> "Image":
    """Return the sheet with the pictures of all outputs; where one has none, the reason stands in its place."""
    sheet = canvas.blank()
    places = list(canvas.places())
    with ThreadPoolExecutor(usable_cores(), "sheet") as threads:
        contents = threads.map(lambda place: _pictures(place[0], canvas.style), places)
        for (_, corner), content in zip(places, contents, strict=True):
            if isinstance(content, str):
                canvas.paste_reason(sheet, corner, content)
            else:
                canvas.paste(sheet, corner, content)
    return sheet


def _pictures(output: SheetOutput, style: SheetStyle) -> "list[Image] | str":
    """Return the scaled pictures of an output, or why it has none."""
    if reason := why_not_shown(output):
        return reason
    assert output.path is not None
    assert output.file is not None
    try:
        if style.strip > 1 and output.file.frames > 1:
            return _strip(output.path, output.file.frames, style)
        picture = first_picture(output.path, style.size)
    except Exception as error:  # decoders raise anything for a foreign file
        logger.info("%s is not on the sheet: %s: %s", output.path, type(error).__name__, error)
        return "cannot be decoded"
    return "no picture" if picture is None else [picture]


def why_not_shown(output: SheetOutput) -> str:
    """Return why there is no file to decode, "" if there is one."""
    if output.row.status != "done":
        return output.row.status if output.row.error is None else f"{output.row.status}: {output.row.error.kind}"
    if output.path is None or not (output.path.is_file() or output.path.is_dir()):
        return "file is missing"
    return ""


def _strip(path: Path, frames: int, style: SheetStyle) -> "list[Image]":
    """Return `style.strip` frames of a clip, evenly spaced from its first to its last."""
    count = min(style.strip, frames)
    wanted = {round(number * (frames - 1) / (count - 1)) for number in range(count)}
    shown: list[Image] = []
    last = None
    for number, last in enumerate(frame_pictures(path)):
        if number in wanted:
            shown.append(scaled(last.copy(), style.size))
    if last is not None and len(shown) < count:  # an animation stores equal frames as one
        shown.append(scaled(last, style.size))
    return shown


def scaled(picture: "Image", size: int) -> "Image":
    """Return `picture` at no more than `size` pixels a side."""
    picture.thumbnail((size, size), reducing_gap=2.0)
    return picture


def _clean(text: str) -> str:
    return printable(text[:_MAX_CHARACTERS])


def _load_font(path: Path | None, size: int) -> "Font":
    """Return the font of the file `path`, or Pillow's own, which has Latin letters alone. Raises UsageError."""
    from PIL import ImageFont

    if path is None:
        return ImageFont.load_default(size)
    with contextlib.suppress(OSError):
        return ImageFont.truetype(path, size)
    raise UsageError(f"--font {path}: is not a font that FreeType reads: name a .ttf or .otf file")
