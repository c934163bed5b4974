"""The outputs of a sheet, and their places: one after the other, or in a grid over one or two fields."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from omni_cli.errors import UsageError
from omni_cli.report.reported_outputs import encodable_name, is_outside, manifest_rows
from omni_cli.request import GenerationRequest, OutputFile, Result
from omni_cli.text import did_you_mean, quote

NESTED_FIELDS = ("meta", "extra")
FIELDS = (
    *(name for name in GenerationRequest.__struct_fields__ if name not in NESTED_FIELDS),
    *("folder", "pipeline", "dtype", "device", "forward", "status"),
)
"""What a sheet can be arranged by, besides `meta.NAME` and `extra.NAME`."""

NONE = "–"
"""The value of a field that a request does not have."""


@dataclass(frozen=True, slots=True)
class SheetOutput:
    """Output `number` of the request of `row`, or a request without files; `path` is where its file should be."""

    folder: str
    row: Result
    number: int
    file: OutputFile | None
    path: Path | None

    def value(self, name: str) -> str:
        """Return the value of a field that `check_field` has accepted, as text."""
        request, row = self.row.request, self.row
        parent, _, key = name.partition(".")
        match parent:
            case "id":
                return row.id if self.file is None else row.sample_id(self.number)
            case "seed":
                return str(row.seeds[self.number]) if self.number < len(row.seeds) else NONE
            case "model":
                return request.model or row.model.id
            case "folder" | "status":
                return self.folder if parent == "folder" else row.status
            case "pipeline" | "dtype":
                return row.model.pipeline if parent == "pipeline" else row.model.dtype
            case "device":
                return row.made.device if row.made is not None and row.made.device else NONE
            case "forward":
                return f"{row.timings.forward:.3g} s"
            case "meta" | "extra":
                return _text(((request.meta if parent == "meta" else request.extra) or {}).get(key))
            case "lora":
                return ", ".join(f"{Path(each.path).stem}:{each.weight:g}" for each in request.lora or ()) or NONE
        return _text(getattr(request, name))


def _text(value: object) -> str:
    """Return a value of a request as text; a whole number as such, whether it was written 7 or 7.0."""
    if value is None:
        return NONE
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class SheetGrid:
    """A table of outputs, None where there is none.

    `columns` and `lines` are the headings, empty without a field. `hidden` is the number of outputs that share a cell
    with one that is shown.
    """

    cells: list[list[SheetOutput | None]]
    columns: list[str]
    lines: list[str]
    hidden: int = 0

    @property
    def width(self) -> int:
        """Number of columns."""
        return max((len(line) for line in self.cells), default=0)


def check_field(flag: str, name: str) -> str:
    """Return `name` if an output has a field of this name. Raises UsageError with the nearest one."""
    parent, _, key = name.partition(".")
    if (parent in NESTED_FIELDS and key) or name in FIELDS:
        return name
    advice = did_you_mean(name, FIELDS, "use a field of a request, meta.NAME, extra.NAME or folder")
    raise UsageError(f"{flag}: no output has a field {quote(name)}; {advice}")


def read_sheet_outputs(folders: Iterable[Path], ids: Collection[str] = ()) -> list[SheetOutput]:
    """Read the outputs of `folders` in the order of their prompt files; with `ids`, those of these requests alone.

    Raises UsageError if a folder has no manifest, or an id no row.
    """
    missing = dict.fromkeys(ids)
    outputs: list[SheetOutput] = []
    for path in folders:
        root, rows = manifest_rows(path)
        for row in rows:
            if ids and row.id not in ids:
                continue
            missing.pop(row.id, None)
            name = encodable_name(root)
            outputs += [
                SheetOutput(name, row, number, file, None if is_outside(file.path) else root / file.path)
                for number, file in enumerate(row.files)
            ] or [SheetOutput(name, row, 0, None, None)]
    if missing:
        raise UsageError(f"--id: there is no row of {', '.join(quote(name) for name in missing)}")
    if not outputs:
        raise UsageError("there is no row to show in these folders")
    return outputs


def arrange(outputs: Sequence[SheetOutput], x: str | None, y: str | None, columns: int) -> SheetGrid:
    """Place `outputs` in a grid with the values of field `x` in columns and those of `y` in lines.

    With one field, the outputs of each value follow each other along the other axis; without any, `columns` a line.
    """
    if x is None and y is None:
        waiting = iter(outputs)
        lines = list(iter(lambda: [*islice(waiting, columns)], []))
        return SheetGrid([[*line] for line in lines], [], [])
    if x is None or y is None:
        name = x or y or ""
        values, groups = _grouped(outputs, lambda output: output.value(name))
        longest = max(map(len, groups.values()))
        cells = [[*groups[value], *[None] * (longest - len(groups[value]))] for value in values]
        headings = [f"{name}={value}" for value in values]
        if x is None:
            return SheetGrid(cells, [], headings)
        return SheetGrid([list(line) for line in zip(*cells, strict=True)], headings, [])
    across, _ = _grouped(outputs, lambda output: output.value(x))
    down, _ = _grouped(outputs, lambda output: output.value(y))
    _, groups = _grouped(outputs, lambda output: f"{output.value(x)}\0{output.value(y)}")
    cells = [[next(iter(groups.get(f"{one}\0{other}", ())), None) for one in across] for other in down]
    hidden = sum(len(group) - 1 for group in groups.values())
    return SheetGrid(cells, [f"{x}={value}" for value in across], [f"{y}={value}" for value in down], hidden)


def _grouped(
    outputs: Iterable[SheetOutput], value_of: Callable[[SheetOutput], str]
) -> tuple[list[str], dict[str, list[SheetOutput]]]:
    """Return the values, numbers in their order and others as they come, and the outputs of each."""
    groups: dict[str, list[SheetOutput]] = {}
    for output in outputs:
        groups.setdefault(value_of(output), []).append(output)
    return sorted(groups, key=_number) if all(map(_is_number, groups)) else list(groups), groups


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value)) or value == NONE
    except ValueError:
        return value == NONE


def _number(value: str) -> float:
    """Return the number that `value` is; that of a request without the field comes first."""
    return -math.inf if value == NONE else float(value)
