"""A row: the text of one request with its place. The rows of every format are validated here.

RawRow ── FastPath.request ──> GenerationRequest ────────────────────────────────────> LocatedRequest
            └── None: not certain ── Row.parse ──> Parsed ── validate ──> request ────────┘
                                                                └──> mistakes ── Row.locate ──> Diagnostics
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec.structs import replace

from omni_cli.errors import Diagnostic
from omni_cli.prompts.byte_stream import BLANK, MAX_BYTES, RawRow
from omni_cli.prompts.fast_path import FastPath
from omni_cli.prompts.scan import Parsed
from omni_cli.prompts.validation import offset_of, validate
from omni_cli.request import GenerationRequest

NO_DEFAULTS = GenerationRequest()


class Row(msgspec.Struct, frozen=True):
    """The text of one request.

    `raw` is UTF-8, or meant to be. Its first character stands at `line` and `column` of `source`, both counted from 1,
    or 0 for rows that are not text. `parse` splits the decoded text into named values.
    """

    source: str
    line: int
    column: int
    raw: bytes
    parse: Callable[[str], Parsed]

    def parsed(self) -> Parsed:
        """Parse the text; it is not kept parsed."""
        return self.parse(self.raw.decode("utf-8", "replace"))

    def validate(self, defaults: GenerationRequest) -> GenerationRequest | list[Diagnostic]:
        """Return the request, or the located diagnostics of its mistakes."""
        checked = validate(self.parsed(), defaults)
        encoding = not_utf8(self.raw)
        if encoding is None and isinstance(checked, GenerationRequest):
            return checked
        diagnostics = [] if encoding is None else [encoding]
        if isinstance(checked, list):
            diagnostics += checked
        return [self.locate(diagnostic) for diagnostic in diagnostics]

    def read(self, index: int, defaults: GenerationRequest) -> "Rows":
        """Yield the request as row number `index`, or the diagnostics of its mistakes."""
        checked = self.validate(defaults)
        if isinstance(checked, GenerationRequest):
            yield LocatedRequest(checked, index, self)
        else:
            yield from checked

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column of the character at `offset`."""
        before = self.raw.decode("utf-8", "replace")[:offset]
        breaks = before.count("\n")
        if breaks:
            return self.line + breaks, offset - before.rindex("\n")
        return self.line, self.column + offset if self.line else 0

    def locate(self, diagnostic: Diagnostic) -> Diagnostic:
        """Return `diagnostic` with the place in the source that its offset means."""
        line, column = self.place(diagnostic.offset)
        return replace(diagnostic, source=self.source, line=line, column=column)


class LocatedRequest(msgspec.Struct, frozen=True):
    """A request and its row. `index` counts the rows of the source from 0, faulty ones included."""

    request: GenerationRequest
    index: int
    row: Row

    def __repr__(self) -> str:
        """Leave the row's text out: it may be long."""
        return f"LocatedRequest({self.request!r}, index={self.index}, source={self.source!r})"

    @property
    def source(self) -> str:
        """The name of the source, safe to print."""
        return self.row.source

    @property
    def line(self) -> int:
        """The line at which the row starts, counted from 1."""
        return self.row.line

    def at(self, field: str) -> tuple[int, int]:
        """Return line and column of the value of `field`, or of the row if it is not given. Parses the row again."""
        return self.row.place(offset_of(self.row.parsed(), field))

    def problem(self, field: str, cause: str, remedy: str = "") -> Diagnostic:
        """Return the diagnostic of a later check of `field`, at the place where the row gives it."""
        line, column = self.at(field)
        return Diagnostic(cause, remedy, field, source=self.source, line=line, column=column)

    def problem_in_text(self, field: str, position: int, cause: str, remedy: str = "") -> Diagnostic:
        """Return the diagnostic of character `position` of the text of `field`, counted from 0.

        It is placed there if the row has the text as it is, else where the field begins, with the character's number.
        """
        text, whole = getattr(self.request, field) or "", self.row.raw.decode("utf-8", "replace")
        start = offset_of(self.row.parsed(), field)
        start += whole[start : start + 1] == '"'
        if not whole.startswith(text, start):
            return self.problem(field, f"{cause} (character {position + 1})", remedy)
        line, column = self.row.place(start + position)
        return Diagnostic(cause, remedy, field, source=self.source, line=line, column=column)


Rows = Iterator[LocatedRequest | Diagnostic]


def validate_rows(
    source: str,
    rows: Iterable[RawRow | Diagnostic],
    parse: Callable[[str], Parsed],
    defaults: GenerationRequest,
    fast_path: FastPath,
) -> Rows:
    """Yield the request of every row of `source`, or the diagnostics of its mistakes; skip blank rows."""
    index, request_of = 0, fast_path.request
    for raw_row in rows:
        if isinstance(raw_row, Diagnostic):
            yield raw_row
            continue
        raw = raw_row.raw
        if raw is None:
            yield too_long(source, raw_row.line, raw_row.column)
        elif (request := request_of(raw)) is not None:
            yield LocatedRequest(request, index, Row(source, raw_row.line, raw_row.column, raw, parse))
        elif raw.strip(BLANK):
            row = Row(source, raw_row.line, raw_row.column, raw, parse)
            checked = row.validate(defaults)
            if isinstance(checked, GenerationRequest):
                fast_path.remember(raw, checked)
                yield LocatedRequest(checked, index, row)
            else:
                yield from checked
        else:
            continue
        index += 1


def too_long(source: str, line: int, column: int) -> Diagnostic:
    """Return the diagnostic of a row that is not read because of its length."""
    cause = f"longer than {MAX_BYTES >> 20} MiB"
    return Diagnostic(cause, "give one request a row", source=source, line=line, column=column)


def not_utf8(raw: bytes) -> Diagnostic | None:
    """Return the diagnostic of the first byte of `raw` that is not UTF-8, None if there is none."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        offset = len(raw[: error.start].decode("utf-8"))
        cause = f"byte 0x{raw[error.start]:02x} at byte {error.start + 1} of the row is not UTF-8"
        return Diagnostic(cause, "save the file as UTF-8, or name its encoding with --input-encoding", offset=offset)
    return None
