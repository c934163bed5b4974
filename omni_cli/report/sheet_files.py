"""Sheets on disk: as many pictures as the outputs need, or one video."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omni_cli.errors import UsageError, WriteError
from omni_cli.report.contact_sheet import SheetCanvas, SheetStyle, draw_sheet
from omni_cli.report.grid_video import write_grid_video
from omni_cli.report.sheet_cells import SheetGrid, SheetOutput, arrange
from omni_cli.storage.atomic import pending_file
from omni_cli.storage.disk_errors import describe_error
from omni_cli.text import quote
from omni_cli.writers.formats import VIDEO_CONTAINERS

_PICTURES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
_WEBP_SIDE = 16_383


@dataclass(frozen=True, slots=True)
class WrittenSheets:
    """The files, the number of outputs on them, and of those that have no place."""

    paths: list[Path]
    outputs: int
    hidden: int

    @property
    def summary(self) -> str:
        """Return the counts as a line for people."""
        text = f"sheet: {self.outputs:,} output{'' if self.outputs == 1 else 's'}"
        if self.hidden:
            text += f"; {self.hidden:,} more have the same values as one that is shown: choose another --x or --y"
        return text


def write_sheets(
    outputs: Sequence[SheetOutput],
    path: Path,
    style: SheetStyle,
    x: str | None,
    y: str | None,
    columns: int,
    rows: int,
) -> WrittenSheets:
    """Write `outputs` to `path`, a grid over the fields `x` and `y`; without either, `rows` lines of `columns` a sheet.

    Further sheets are NAME-2, NAME-3 and so on. Raises UsageError if the name has no known format or is that of an
    output, or the sheet is too large or cannot be written.
    """
    suffix = path.suffix.lower()
    is_video = suffix.removeprefix(".") in VIDEO_CONTAINERS
    if not is_video and suffix not in _PICTURES:
        names = " ".join([*_PICTURES, *sorted(f".{name}" for name in VIDEO_CONTAINERS)])
        raise UsageError(f"-o {quote(str(path), 200)}: a sheet has one of the extensions {names}")
    grid = arrange(outputs, x, y, columns)
    pages = [grid]
    if x is None and y is None and not is_video:
        pages = [SheetGrid(grid.cells[at : at + rows], [], []) for at in range(0, len(grid.cells), rows)]
    paths = [path if number == 1 else path.with_stem(f"{path.stem}-{number}") for number in range(1, len(pages) + 1)]
    _check_names(paths, outputs)
    for target, page in zip(paths, pages, strict=True):
        canvas = SheetCanvas(page, style)
        try:
            if is_video:
                write_grid_video(canvas, target, suffix.removeprefix("."))
            else:
                _write_picture(canvas, target, _PICTURES[suffix])
        except (OSError, WriteError) as error:
            reason = describe_error(error) if isinstance(error, OSError) else str(error)
            raise UsageError(f"-o {quote(str(target), 200)}: cannot be written: {reason}") from error
    return WrittenSheets(paths, len(outputs) - grid.hidden, grid.hidden)


def _check_names(paths: Sequence[Path], outputs: Sequence[SheetOutput]) -> None:
    """Raise UsageError if a sheet would replace an output."""
    taken = {output.path.resolve() for output in outputs if output.path is not None}
    for path in paths:
        if path.resolve() in taken:
            raise UsageError(f"-o {quote(str(path), 200)}: is an output; choose another name")


def _write_picture(canvas: SheetCanvas, path: Path, format_name: str) -> None:
    """Write one sheet. Raises UsageError if the format cannot hold its size, WriteError and OSError."""
    if format_name == "WEBP" and max(canvas.size) > _WEBP_SIDE:
        raise UsageError(f"-o {path.name}: WebP holds {_WEBP_SIDE} pixels a side, not {max(canvas.size)}: name a .png")
    sheet = draw_sheet(canvas)
    with pending_file(path.parent, path.name) as pending:
        with pending.open() as file:
            sheet.save(file, format_name, quality=90)
        pending.publish()
