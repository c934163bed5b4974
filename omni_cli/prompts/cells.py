"""Records and cells of tables, quoted as in RFC 4180, with the place of each.

The `csv` module gives cells without their places and silently accepts malformed quoting.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from omni_cli.errors import Diagnostic
from omni_cli.prompts.byte_stream import MAX_BYTES, RawRow
from omni_cli.prompts.encoding import MARK


@dataclass(frozen=True, slots=True)
class Dialect:
    """The mark between cells, and the pattern of one cell: blanks outside its quotes do not belong to it."""

    delimiter: str
    cell: re.Pattern[str]


class Cell(NamedTuple):
    """The text of a cell without its quotes, and the offset of its first character, the quote included."""

    offset: int
    text: str


def records(lines: Iterable[RawRow], dialect: Dialect) -> Iterator[RawRow]:
    """Join lines to records: a line break in quotes does not end one. Empty records are skipped."""
    empty = f" \t\r{dialect.delimiter}".encode()
    number, pieces, size, in_quotes = 0, list[bytes](), 0, False
    for line in lines:
        if not pieces:
            number, size = line.line, 0
        raw = line.raw
        if raw is not None and (pieces or raw.strip(empty)):
            pieces.append(raw)
            size += len(raw) + 1
            in_quotes = _ends_in_quotes(raw, dialect, in_quotes)
        if raw is None or size > MAX_BYTES:
            yield RawRow(number, 1, None)
            pieces, in_quotes = [], False
        elif pieces and not in_quotes:
            yield RawRow(number, 1, b"\n".join(pieces).removesuffix(b"\r"))
            pieces = []
    if pieces:
        yield RawRow(number, 1, b"\n".join(pieces).removesuffix(b"\r"))


def split(record: str, dialect: Dialect) -> tuple[Sequence[Cell], Sequence[Diagnostic]]:
    """Return the cells of a record, and the mistakes in its quoting."""
    cells, diagnostics = [], []
    remedy = 'write a quote in a cell as ""'
    for match in _matches(record, int(record.startswith(MARK)), dialect):
        if match["bare"] is not None:
            cells.append(Cell(match.start("bare"), match["bare"].rstrip()))
            continue
        offset = match.start("quoted") - 1
        cells.append(Cell(offset, match["quoted"].replace('""', '"')))
        if not match["close"]:
            diagnostics.append(Diagnostic("a quoted cell without its closing quote", remedy, offset=offset))
        elif match["junk"].strip():
            diagnostics.append(Diagnostic("text after the closing quote", remedy, offset=match.start("junk")))
    return cells, diagnostics


def _ends_in_quotes(raw: bytes, dialect: Dialect, starts_in_quotes: bool) -> bool:
    """Return True if a quoted cell of the line `raw` goes on in the next line."""
    if b'"' not in raw:
        return starts_in_quotes
    line = raw.decode("utf-8", "replace")
    start = int(line.startswith(MARK))
    if starts_in_quotes:
        body = _QUOTED.match(line)
        assert body is not None
        start = line.find(dialect.delimiter, body.end()) + 1
        if body.end() == len(line) or not start:
            return body.end() == len(line)
    return any(match["close"] == "" for match in _matches(line, start, dialect))


def _matches(record: str, start: int, dialect: Dialect) -> Iterator[re.Match[str]]:
    """Yield a match for every cell from the offset `start` on."""
    while start <= len(record):
        match = dialect.cell.match(record, start)
        assert match is not None
        yield match
        start = match.end() + 1


def _dialect(delimiter: str, blank: str) -> Dialect:
    quoted = rf'"(?P<quoted>{_QUOTED.pattern})(?P<close>"?)(?P<junk>[^{delimiter}]*+)'
    return Dialect(delimiter, re.compile(rf"[{blank}]*+(?:{quoted}|(?P<bare>[^{delimiter}]*+))"))


_QUOTED = re.compile(r'[^"]*+(?:""[^"]*+)*+')

COMMAS = _dialect(",", " \t")
SEMICOLONS = _dialect(";", " \t")
TABS = _dialect("\t", " ")
DIALECTS = (COMMAS, SEMICOLONS, TABS)
