"""CSV and TSV: a header that names the fields, then one request a record. An empty cell says nothing.

Numbers are written as in JSON. `extra` is a JSON object; `image` and `lora` are paths, or JSON where they begin with [ or {.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from omni_cli.errors import Problem
from omni_cli.inputs import FIELD_KINDS
from omni_cli.prompts.cells import COMMAS, TABS, Cell, Dialect, records, split
from omni_cli.prompts.check import Parsed, check, has_input, is_input
from omni_cli.prompts.fields import RULES, known, targets
from omni_cli.prompts.jsonl import too_long
from omni_cli.prompts.nodes import Fault, Member, Node
from omni_cli.prompts.quick import QuickCells
from omni_cli.prompts.row import NO_DEFAULTS, Located, Row, judge, not_utf8
from omni_cli.prompts.scan import number, scan
from omni_cli.prompts.source import Line, Stream
from omni_cli.request import GenerationRequest


def read_csv(stream: Stream, defaults: GenerationRequest) -> Iterator[Located | Problem]:
    """The requests of comma-separated values."""
    return _read(stream, COMMAS, defaults)


def read_tsv(stream: Stream, defaults: GenerationRequest) -> Iterator[Located | Problem]:
    """The requests of tab-separated values."""
    return _read(stream, TABS, defaults)


@dataclass(frozen=True, slots=True)
class _Header:
    """The name of each column, None where it names no field; `complete` if a row can be held to give an input."""

    names: Sequence[str | None]
    dialect: Dialect
    complete: bool


def _read(stream: Stream, dialect: Dialect, defaults: GenerationRequest) -> Iterator[Located | Problem]:
    lines = records(stream.lines(), dialect)
    first = next(lines, None)
    if first is None:
        return
    header, problems = _header(stream.name, first, dialect, defaults)
    yield from problems
    if not any(header.names):
        return
    row_parse, quick = partial(_parse, header), QuickCells(header.names, dialect.delimiter)
    for index, (line, raw) in enumerate(lines):
        if raw is None:
            yield too_long(stream.name, line, 1)
            continue
        row, request = Row(stream.name, line, 1, raw, row_parse), quick.request(raw)
        if request is not None:
            yield Located(request, index, stream.name, row)
            continue
        for judged in judge(row, index, defaults):
            if isinstance(judged, Located):
                quick.remember(raw, judged.request)
            yield judged


def _header(
    source: str, line: Line, dialect: Dialect, defaults: GenerationRequest
) -> tuple[_Header, Sequence[Problem]]:
    """The columns that `line` names, and all that is wrong with it."""
    if line.raw is None:
        return _Header((), dialect, False), [too_long(source, line.number, 1)]
    text = line.raw.decode("utf-8", "replace")
    cells, faults = split(text, dialect)
    named = [cell for cell in cells if cell.text]
    members = [Member(cell.text.strip(), cell.at, Node(cell.at, None)) for cell in named]
    names = _usable(cells)
    found = [
        *faults,
        *(Fault(cell.at, "", "a column without a name", "name the field") for cell in cells if not cell.text),
    ]
    judged = check(Parsed(members, faults=found, whole=False), NO_DEFAULTS)
    found = judged if isinstance(judged, list) else []
    complete = any(name and is_input(known(name)) for name in names) or has_input(defaults)
    if not any(names):
        found = [Fault(0, "", "the first line names no field", _advice(cells, dialect))]
    elif not complete:
        found = [*found, Fault(0, "", "no column gives a prompt", "add a column named prompt")]
    broken = not_utf8(line.raw)
    row = Row(source, line.number, 1, line.raw, lambda _: Parsed(members))
    return _Header(names, dialect, complete), [row.problem(fault) for fault in [*([broken] if broken else []), *found]]


def _usable(cells: Sequence[Cell]) -> list[str | None]:
    """The name of each column that is the first to name its field, else None."""
    taken = set[str]()
    names: list[str | None] = []
    for cell in cells:
        name = cell.text.strip()
        fields = set(targets(known(name)))
        names.append(name if fields and not fields & taken else None)
        taken |= fields
    return names


def _advice(cells: Sequence[Cell], dialect: Dialect) -> str:
    """How to mend a header that names nothing known."""
    other = next((mark for mark in ";\t," if mark != dialect.delimiter and mark in cells[0].text), None)
    if len(cells) == 1 and other is not None:
        return f"cells are separated by {_MARKS[dialect.delimiter]}, not by {_MARKS[other]}"
    return "begin with the names of the columns, such as prompt and seed"


def _parse(header: _Header, text: str) -> Parsed:
    """The members of a record."""
    cells, quote_faults = split(text, header.dialect)
    faults = list(quote_faults)
    wanted = len(header.names)
    even = len(cells) == wanted
    if not even and not faults:
        at = cells[wanted].at if len(cells) > wanted else len(text)
        mark = _MARKS[header.dialect.delimiter]
        message = f"cells in the row: {len(cells)}, in the header: {wanted}"
        faults.append(Fault(at, "", message, f"a cell that holds {mark} or line breaks needs double quotes around it"))
    members = [
        Member(name, cell.at, _node(name, cell, faults))
        for name, cell in zip(header.names, cells, strict=False)
        if name is not None and cell.text.strip()
    ]
    return Parsed(members, 0, faults, whole=header.complete and even and not faults)


def _node(name: str, cell: Cell, faults: list[Fault]) -> Node:
    """The value that a cell writes for a field; JSON inside it is placed, and its faults too, at the cell."""
    field, text = known(name), cell.text
    if field == "extra" or (field in ("image", "lora") and text.lstrip().startswith(("[", "{"))):
        scanned = scan(text)
        for fault in scanned.faults:
            message = f"{fault.message} (character {fault.at + 1} of the cell)"
            faults.append(Fault(cell.at, name, message, fault.allowed))
        return _pinned(scanned.node, cell.at) if scanned.whole else Node(cell.at, None)
    if field in _NUMBERS:
        value = number(text.strip())
        return Node(cell.at, text if value is None else value)
    return Node(cell.at, text)


def _pinned(node: Node, at: int) -> Node:
    """`node` and all below it, placed at `at`."""
    value = node.value
    if isinstance(value, tuple):
        return Node(at, tuple(Member(key, at, _pinned(inner, at)) for key, _, inner in value))
    if isinstance(value, list):
        return Node(at, [_pinned(item, at) for item in value])
    return Node(at, value)


_MARKS = {",": "commas", "\t": "tabs", ";": "semicolons"}

_TEXTS = ("id", "prompt", "negative_prompt", *FIELD_KINDS, "output", "format")
_NUMBERS = frozenset(RULES) - frozenset(_TEXTS)
