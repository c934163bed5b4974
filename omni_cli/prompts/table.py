"""Tables: a header that names the fields, then one request a record. An empty cell gives its field no value.

Cells are separated by commas, semicolons or tabs, whichever gives the header the most names of fields; a first line
`sep=;`, as Excel writes it, decides. Numbers are written as in JSON, also with a decimal comma where commas do not
separate. `extra` and `meta` are JSON objects; `image` and `lora` are paths, or JSON if they begin with [ or {.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from msgspec.structs import replace

from omni_cli.errors import Diagnostic
from omni_cli.prompts.byte_stream import ByteStream, RawRow
from omni_cli.prompts.cells import COMMAS, DIALECTS, TABS, Cell, Dialect, records, split
from omni_cli.prompts.columns import Columns
from omni_cli.prompts.fast_path import CellFastPath, FastPath
from omni_cli.prompts.fields import EXTRA, META, NUMBERS, field_of, filled_fields
from omni_cli.prompts.foreign_names import foreign_advice
from omni_cli.prompts.row import NO_DEFAULTS, Row, Rows, not_utf8, too_long, validate_rows
from omni_cli.prompts.scan import Member, Node, Parsed, number, scan
from omni_cli.prompts.validation import INPUTS, has_input, validate
from omni_cli.request import GenerationRequest
from omni_cli.text import quote

NOT_AVAILABLE = frozenset(
    {"nan", "NaN", "None", "null", "NULL", "<NA>", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#DIV/0!"}
)
"""What pandas and spreadsheets write into a cell without a value."""


def names_fields(line: str) -> bool:
    """Return True if `line` is the header of a table that gives a prompt, and not a prompt itself."""
    cells = [cell.text for cell in split(line, dialect_of(line, COMMAS))[0]]
    has_prompt = any(Columns().column_name(cell) == "prompt" for cell in cells)
    return has_prompt and all(len(cell) <= _MAX_NAME for cell in cells)


def dialect_of(line: str, preferred: Dialect) -> Dialect:
    """Return the dialect that finds the most names of fields in a header; of equals, `preferred` if it is one."""

    def names(dialect: Dialect) -> int:
        return sum(field_of(Columns().column_name(cell.text)) is not None for cell in split(line, dialect)[0])

    return max((preferred, *DIALECTS), key=names)


def read_csv(stream: ByteStream, defaults: GenerationRequest, columns: Columns) -> Rows:
    """Read the requests of a table whose cells are separated by commas, unless the header tells otherwise."""
    return _read_table(stream, COMMAS, defaults, columns)


def read_tsv(stream: ByteStream, defaults: GenerationRequest, columns: Columns) -> Rows:
    """Read the requests of a table whose cells are separated by tabs, unless the header tells otherwise."""
    return _read_table(stream, TABS, defaults, columns)


@dataclass(frozen=True, slots=True)
class _Header:
    """The columns of a table: of each the text of its cell, and the key of its values.

    The key is "" for a column without a name, and None for one whose values are not read. `has_input`: a row without an
    input is a mistake.
    """

    cells: Sequence[str]
    keys: Sequence[str | None]
    dialect: Dialect
    columns: Columns
    has_input: bool

    @property
    def least(self) -> int:
        """The cells that a record has at least: nameless columns at the end may be missing."""
        return max((number for number, key in enumerate(self.keys, 1) if key != ""), default=0)


def _read_table(stream: ByteStream, preferred: Dialect, defaults: GenerationRequest, columns: Columns) -> Rows:
    lines = stream.lines()
    first = next((line for line in lines if line.raw is None or line.raw.strip(_EMPTY)), None)
    if first is None:
        return
    text = "" if first.raw is None else first.raw.decode("utf-8", "replace")
    if separator := _SEPARATOR.fullmatch(text):
        dialect = next(dialect for dialect in DIALECTS if dialect.delimiter == separator["mark"])
        rows = records(lines, dialect)
    else:
        dialect = dialect_of(text, preferred)
        rows = records(chain((first,), lines), dialect)
    line = next(rows, None)
    if line is None:
        return
    header, diagnostics = _parse_header(stream.name, line, dialect, defaults, columns)
    yield from diagnostics
    if any(header.keys):
        fast_path = FastPath()
        if columns.are_fields and "" not in header.keys:
            fast_path = CellFastPath(header.keys, dialect.delimiter, NOT_AVAILABLE.union(header.cells))
        yield from validate_rows(stream.name, rows, partial(_parse_record, header), defaults, fast_path)


def _parse_header(
    source: str, line: RawRow, dialect: Dialect, defaults: GenerationRequest, columns: Columns
) -> tuple[_Header, Sequence[Diagnostic]]:
    """Return the columns that `line` names, and all its mistakes."""
    if line.raw is None:
        return _Header((), (), dialect, columns, has_input=False), [too_long(source, line.line, 1)]
    cells, quoting = split(line.raw.decode("utf-8", "replace"), dialect)
    texts = [cell.text for cell in cells]
    names = [columns.column_name(text) for text in texts]
    members = (Member(name, cell.offset, Node(cell.offset, None)) for name, cell in zip(names, cells, strict=True))
    # The header is checked as a row without values would be.
    parsed = columns.apply(Parsed(Node(0, tuple(member for member in members if member.key)), quoting, complete=False))
    checked = validate(parsed, NO_DEFAULTS)
    diagnostics = checked if isinstance(checked, list) else []
    keys = _keys(names, columns)
    fields = {field_of(columns.name(key)) for key in keys if key} - {None}
    gives_input = bool(fields & INPUTS) or has_input(defaults)
    if absent := [name for name in columns.fields if name not in texts and name not in columns.optional]:
        cause = f"there is no column {quote(absent[0])}, which --field names"
        diagnostics = [Diagnostic(cause, f"columns are {', '.join(map(quote, filter(None, texts)))}")]
    elif not fields and not any(map(foreign_advice, texts)):
        diagnostics = [Diagnostic("the first line names no field", _NO_FIELDS)]
    elif not gives_input and not any(map(foreign_advice, texts)):
        diagnostics = [*diagnostics, Diagnostic("no column gives a prompt", _NO_PROMPT)]
    encoding = not_utf8(line.raw)
    row = Row(source, line.line, 1, line.raw, lambda _: parsed)
    located = [row.locate(diagnostic) for diagnostic in ([] if encoding is None else [encoding]) + [*diagnostics]]
    return _Header(texts, keys if fields else (), dialect, columns, gives_input), located


def _keys(names: Sequence[str], columns: Columns) -> list[str | None]:
    """Return the key of each column's values, None for those that are not read: each field is read once."""
    extra, filled = columns.extra_keys(names), set[str]()
    keys: list[str | None] = []
    for name in names:
        fields = set(filled_fields(field_of(columns.name(name))))
        is_read = columns.extra == "keep" if name in extra else not fields & filled
        keys.append(name if is_read or not name else None)
        filled |= fields if name not in extra else set()
    return keys


def _parse_record(header: _Header, text: str) -> Parsed:
    cells, quoting = split(text, header.dialect)
    diagnostics = list(quoting)
    width = len(header.keys)
    if not header.least <= len(cells) <= width and not diagnostics:
        offset = cells[width].offset if len(cells) > width else len(text)
        cause = f"cells in the row: {len(cells)}, in the header: {width}"
        mark = _MARKS[header.dialect.delimiter]
        remedy = f"a cell that holds {mark} or line breaks needs double quotes around it"
        diagnostics.append(Diagnostic(cause, remedy, offset=offset))
    elif [cell.text for cell in cells] == header.cells:
        cause, remedy = "the header stands here again", "remove this line: were two files joined?"
        return Parsed(Node(0, ()), [Diagnostic(cause, remedy)], complete=False)
    members = []
    for key, cell in zip(header.keys, cells, strict=False):
        if not cell.text.strip() or key is None:
            continue
        if key:
            value = _cell_value(header, key, cell, text[cell.offset] == '"', diagnostics)
            members.append(Member(key, cell.offset, value))
        elif header.columns.extra == "error":
            remedy = "name the column in the first line, or pass --extra-columns ignore"
            diagnostics.append(Diagnostic("a value in a column without a name", remedy, offset=cell.offset))
    complete = header.has_input and not diagnostics
    return header.columns.apply(Parsed(Node(0, tuple(members)), diagnostics, complete))


def _cell_value(header: _Header, key: str, cell: Cell, quoted: bool, diagnostics: list[Diagnostic]) -> Node:
    """Return the value of a cell. JSON in it is placed at the cell, and so are its mistakes."""
    field, text = field_of(header.columns.name(key)), cell.text
    if field in (EXTRA, META) or (field in ("image", "lora") and text.lstrip().startswith(("[", "{"))):
        parsed = scan(text)
        for diagnostic in parsed.diagnostics:
            cause = f"{diagnostic.cause} (character {diagnostic.offset + 1} of the cell)"
            diagnostics.append(replace(diagnostic, cause=cause, field=field, offset=cell.offset))
        return _move(parsed.node, cell.offset) if parsed.complete else Node(cell.offset, None)
    if field is not None and not quoted and (cause := _spreadsheet_mistake(field, text)):
        remedy = "write all digits" if field == "seed" else "put the text in double quotes, or leave the cell empty"
        diagnostics.append(Diagnostic(cause, remedy, field, offset=cell.offset))
        return Node(cell.offset, None)
    if field in NUMBERS:
        separates = header.dialect.delimiter == ","
        value = number(text.strip() if separates else _DECIMAL_COMMA.sub(r"\1.\2", text.strip()))
        return Node(cell.offset, text if value is None else value)
    return Node(cell.offset, text)


def _spreadsheet_mistake(field: str, text: str) -> str:
    """Return what is wrong with a cell that a spreadsheet or pandas has changed, "" if nothing is."""
    if field in ("seed", "id") and _ROUNDED.fullmatch(text.strip()):
        return f"{text.strip()} may have been rounded by a spreadsheet"
    if field not in NUMBERS and text.strip() in NOT_AVAILABLE:
        return f"{quote(text.strip())} is what a program writes into an empty cell"
    return ""


def _move(node: Node, offset: int) -> Node:
    """Return `node` with everything in it placed at `offset`."""
    value = node.value
    if isinstance(value, tuple):
        return Node(offset, tuple(Member(key, offset, _move(inner, offset)) for key, _, inner in value))
    if isinstance(value, list):
        return Node(offset, [_move(item, offset) for item in value])
    return Node(offset, value)


_MARKS = {",": "commas", "\t": "tabs", ";": "semicolons"}

_NO_FIELDS = "begin with the names of the columns, such as prompt and seed"
_NO_PROMPT = "name one prompt, or say which it is with --field prompt=COLUMN"

_MAX_NAME = 40
"""Characters of the name of a column; a longer text is a prompt."""

_EMPTY = b" \t\r,;"
_SEPARATOR = re.compile(r'"?sep=(?P<mark>[,;\t])"?\s*')
_ROUNDED = re.compile(r"[0-9](?:[.,][0-9]+)?[eE]\+[0-9]{2,3}")
_DECIMAL_COMMA = re.compile(r"^(-?[0-9]+),([0-9]{1,2}|[0-9]{4,})$")
"""Not three digits behind the comma: it may separate thousands."""
