"""A row: the text of one request with its place, and how it is judged. Every format's rows end here."""

from collections.abc import Callable, Iterator

import msgspec

from omni_cli.errors import Problem
from omni_cli.prompts.check import MAX_FAULTS, Parsed, check, find
from omni_cli.prompts.nodes import Fault
from omni_cli.request import GenerationRequest

MAX_BYTES = 64 * 1024 * 1024
"""Longest row that is read; a longer one is a fault, so that no input can fill the memory."""

NO_DEFAULTS = GenerationRequest()


class Row(msgspec.Struct, frozen=True):
    """The text of one request.

    `raw` is kept as it came, UTF-8 or meant to be; its first character stands at `line` and `column` of `source`, both
    counted from 1. `parse` splits the decoded text into members.
    """

    source: str
    line: int
    column: int
    raw: bytes
    parse: Callable[[str], Parsed]

    def parsed(self) -> Parsed:
        """The row's members, read from the kept text."""
        return self.parse(self.raw.decode("utf-8", "replace"))

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of the character at `offset`."""
        before = self.raw.decode("utf-8", "replace")[:offset]
        breaks = before.count("\n")
        if not breaks:
            return self.line, self.column + offset
        return self.line + breaks, offset - before.rindex("\n")

    def problem(self, fault: Fault) -> Problem:
        """`fault` with its place in the file."""
        return Problem(self.source, *self.place(fault.at), fault.field, fault.message, fault.allowed)


class Located(msgspec.Struct, frozen=True):
    """A request and where it was asked for.

    `index` counts the rows of the source from 0, faulty ones included; `source` is the file's name, made safe to print.
    """

    request: GenerationRequest
    index: int
    source: str
    row: Row

    def __repr__(self) -> str:
        """Without the row: its text may be long."""
        return f"Located({self.request!r}, index={self.index}, source={self.source!r})"

    @property
    def line(self) -> int:
        """The line that the row starts at, from 1."""
        return self.row.line

    def at(self, field: str) -> tuple[int, int]:
        """Line and column of the value of `field` under whatever name it was given; of the row if it was not. Reads the row again."""
        return self.row.place(find(self.row.parsed(), field))

    def problem(self, field: str, message: str, allowed: str = "") -> Problem:
        """A problem of `field`, found by a later check, at the place where the row says it."""
        return Problem(self.source, *self.at(field), field, message, allowed)


def judge(row: Row, index: int, defaults: GenerationRequest) -> Iterator[Located | Problem]:
    """The request of a row, or all problems of it."""
    parsed = row.parsed()
    broken = not_utf8(row.raw)
    checked = check(parsed, defaults)
    if isinstance(checked, GenerationRequest) and broken is None:
        yield Located(checked, index, row.source, row)
        return
    if broken is not None:
        yield row.problem(broken)
    if isinstance(checked, list):
        yield from map(row.problem, checked[:MAX_FAULTS])
        if len(checked) > MAX_FAULTS:
            yield Problem(
                row.source, row.line, row.column, "", f"more than {MAX_FAULTS} problems in this row", "mend these first"
            )


def not_utf8(raw: bytes) -> Fault | None:
    """The first bytes of `raw` that are not UTF-8."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        offset = len(raw[: error.start].decode("utf-8"))
        message = f"byte 0x{raw[error.start]:02x} at byte {error.start + 1} of the row is not UTF-8"
        return Fault(offset, "", message, "save the file as UTF-8")
    return None
