"""Records and cells of CSV and TSV, quoted as in RFC 4180, with the place of each.

The `csv` module would give the cells but not where they stand, and it takes malformed quoting without a word.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from omni_cli.prompts.nodes import Fault
from omni_cli.prompts.row import MAX_BYTES
from omni_cli.prompts.source import Line


@dataclass(frozen=True, slots=True)
class Dialect:
    """What stands between cells, and the pattern of one cell: blanks outside quotes do not belong to it."""

    delimiter: str
    cell: re.Pattern[str]


class Cell(NamedTuple):
    """The text of a cell, without its quotes, and the offset of its first character, the quote included."""

    at: int
    text: str


def records(lines: Iterable[Line], dialect: Dialect) -> Iterator[Line]:
    """The records of a file under the numbers of their first lines: a line break in quotes does not end one. Empty ones are skipped."""
    nothing = f" \t\r{dialect.delimiter}".encode()
    number, pieces, size, inside = 0, list[bytes](), 0, False
    for line in lines:
        if not pieces:
            number, size = line.number, 0
        raw = line.raw
        if raw is not None and (pieces or raw.strip(nothing)):
            pieces.append(raw)
            size += len(raw) + 1
            inside = _left_open(raw, dialect, inside)
        if raw is None or size > MAX_BYTES:
            yield Line(number, None)
            pieces, inside = [], False
        elif pieces and not inside:
            yield Line(number, b"\n".join(pieces).removesuffix(b"\r"))
            pieces = []
    if pieces:
        yield Line(number, b"\n".join(pieces).removesuffix(b"\r"))


def split(record: str, dialect: Dialect) -> tuple[Sequence[Cell], Sequence[Fault]]:
    """The cells of a record, and what is wrong with its quotes."""
    cells, faults = [], []
    for found in _matches(record, 0, dialect):
        if found["bare"] is not None:
            cells.append(Cell(found.start("bare"), found["bare"].rstrip()))
            continue
        at = found.start("quoted") - 1
        cells.append(Cell(at, found["quoted"].replace('""', '"')))
        if not found["close"]:
            faults.append(Fault(at, "", "a quoted cell without its closing quote", 'write a quote in a cell as ""'))
        elif found["junk"].strip():
            faults.append(
                Fault(found.start("junk"), "", "text after the closing quote", 'write a quote in a cell as ""')
            )
    return cells, faults


def _left_open(raw: bytes, dialect: Dialect, inside: bool) -> bool:
    """True if a quoted cell goes on after the line `raw`; `inside` says that one goes on before it."""
    if b'"' not in raw:
        return inside
    line, at = raw.decode("utf-8", "replace"), 0
    if inside:
        body = _QUOTED.match(line)
        assert body is not None
        at = line.find(dialect.delimiter, body.end()) + 1
        if body.end() == len(line) or not at:
            return body.end() == len(line)
    return any(found["close"] == "" for found in _matches(line, at, dialect))


def _matches(record: str, at: int, dialect: Dialect) -> Iterator[re.Match[str]]:
    """One match for each cell from the offset `at` on."""
    while at <= len(record):
        found = dialect.cell.match(record, at)
        assert found is not None
        yield found
        at = found.end() + 1


def _dialect(delimiter: str, blank: str) -> Dialect:
    quoted = rf'"(?P<quoted>{_QUOTED.pattern})(?P<close>"?)(?P<junk>[^{delimiter}]*+)'
    return Dialect(delimiter, re.compile(rf"[{blank}]*+(?:{quoted}|(?P<bare>[^{delimiter}]*+))"))


_QUOTED = re.compile(r'[^"]*+(?:""[^"]*+)*+')

COMMAS = _dialect(",", " \t")
TABS = _dialect("\t", " ")
