"""JSON values over any lines: an array, objects one after the other, or one object that holds a list of requests.

Values are cut out of the file while it is read: a file of any length needs the memory of one request.
"""

import io
import re
from collections.abc import Generator, Iterator

from omni_cli.errors import Diagnostic
from omni_cli.prompts.byte_stream import BLANK, CHUNK_BYTES, MAX_BYTES, ByteStream, RawRow
from omni_cli.prompts.request_list import holds_requests, may_hold_requests
from omni_cli.prompts.scan import Parsed, scan


def json_values(stream: ByteStream) -> Iterator[RawRow | Diagnostic]:
    """Yield the text of each request without the blanks around it, and the mistakes between them."""
    if stream.first() != b"{":
        yield from _JsonCutter(stream).elements()
        return
    objects = _JsonCutter(stream).objects()
    first = next(objects)
    offset = _offset_of_list(first) if isinstance(first, RawRow) else None
    second = None if offset is None else next(objects, None)
    if isinstance(first, RawRow) and first.raw and offset is not None and second is None:
        inside = _JsonCutter(ByteStream(io.BytesIO(first.raw), stream.name), first.line, first.column)
        yield from inside.elements(offset)
        return
    yield first
    if second is not None:
        yield second
    yield from objects


def begins_with_list(raw: bytes) -> bool:
    """Return True if an object begins with a list under a name that is no field."""
    match = _BEGINS_WITH_LIST.match(raw)
    return match is not None and may_hold_requests(match["name"].decode("utf-8", "replace"))


def _offset_of_list(row: RawRow) -> int | None:
    """Return the offset in bytes of the list of requests that is all an object holds, None for any other object."""
    if row.raw is None or not begins_with_list(row.raw):
        return None
    text = row.raw.decode("utf-8", "replace")
    members = scan(text).members
    if len(members) != 1:
        return None
    key, _, node = members[0]
    if not isinstance(node.value, list):
        return None
    only_objects = all(Parsed(item).members for item in node.value)
    return len(text[: node.offset].encode()) if holds_requests(key, only_objects=only_objects) else None


class _JsonCutter:
    """A reader that finds the ends of values by strings and brackets; a value's own scan reports the rest.

    `buffer` from `start` on is read and not yet cut off; `line` and `column` are the place of the character at `start`.
    """

    def __init__(self, stream: ByteStream, line: int = 1, column: int = 1) -> None:
        self.stream = stream
        self.buffer, self.start = b"", 0
        self.line, self.column = line, column

    def objects(self) -> Iterator[RawRow | Diagnostic]:
        """Yield objects that follow one another with nothing but blanks between them."""
        while mark := self._next_character():
            if mark == b",":
                yield self._diagnostic("a comma between requests", "remove it, or put all requests in [ ]")
                self._advance(self.start + 1)
                continue
            end = self._end_of_value(in_array=False)
            if end is None:
                yield RawRow(self.line, self.column, None)
                return
            yield RawRow(self.line, self.column, self.buffer[self.start : end].strip(BLANK))
            self._advance(end)

    def elements(self, offset: int | None = None) -> Iterator[RawRow | Diagnostic]:
        """Yield the elements of the array that begins at `offset`, or of the one array that the whole file is."""
        if offset is None and self._next_character() != b"[":
            remedy = 'write objects, or an array as in [{"prompt": "..."}]'
            yield self._diagnostic("a JSON file of requests begins with [ or {", remedy)
            return
        while offset is not None and len(self.buffer) <= offset and self._fill():
            pass
        self._advance(self.start + 1 if offset is None else offset + 1)
        complete = yield from self._cut()
        if offset is None and complete and self._next_character():
            remedy = "remove it, or put all requests in one array"
            yield self._diagnostic("more text after the end of the array", remedy)

    def _cut(self) -> Generator[RawRow | Diagnostic, None, bool]:
        """Yield the elements up to the array's closing bracket; return False if reading cannot go on to it."""
        closer = b","
        comma: tuple[int, int] | None = None
        while closer == b",":
            end = self._end_of_value(in_array=True)
            if end is None:
                yield RawRow(self.line, self.column, None)
                return False
            text, closer = self.buffer[self.start : end], self.buffer[end : end + 1]
            self._advance(end - len(text.lstrip(BLANK)))
            if raw := text.strip(BLANK):
                yield RawRow(self.line, self.column, raw if len(text) <= MAX_BYTES else None)
            elif closer == b",":
                yield self._diagnostic("nothing before this comma", "remove it")
            elif closer and comma is not None:
                line, column = comma
                yield Diagnostic(
                    "trailing comma before ]", "remove it", source=self.stream.name, line=line, column=column
                )
            self._advance(end)
            comma = self.line, self.column
            self._advance(end + len(closer))
        if not closer:
            yield self._diagnostic("the array is not closed", "the file may be cut off; end it with ]")
        return bool(closer)

    def _end_of_value(self, *, in_array: bool) -> int | None:
        """Return the offset after the value at `start`, None if it is too long.

        A value ends before a comma; in an array before its closing bracket, else after its own; or at the file's end.
        """
        at, depth = self.start, 0
        while True:
            match = (_INSIDE if depth else _BETWEEN).match(self.buffer, at)
            assert match is not None
            at = match.end()
            mark = self.buffer[at : at + 1]
            line_end = self.buffer.find(b"\n", at) if mark == b'"' else -1
            if line_end >= 0:
                at = line_end  # a string cannot hold a line break, so this one lacks its quote: go on after it
            elif mark in (b"", b'"'):
                at -= self.start
                if len(self.buffer) - self.start > MAX_BYTES:
                    return None
                if not self._fill():
                    return len(self.buffer)
            elif depth == 0 and mark in ((b",", b"]") if in_array else (b",",)):
                return at
            else:
                depth = depth + 1 if mark in (b"{", b"[") else max(depth - 1, 0)
                at += 1
                if depth == 0 and not in_array:
                    return at

    def _fill(self) -> bool:
        """Drop what has been cut off, so that `start` becomes 0, and read more; return False at the end of the file."""
        self.buffer, self.start = self.buffer[self.start :], 0
        pending = len(self.buffer)
        # Doubling a long element keeps its scan linear; a short one takes what a pipe has.
        least = min(pending, MAX_BYTES + 1 - pending) if pending > CHUNK_BYTES else 1
        more = self.stream.chunks(max(least, 1))
        self.buffer += more
        return bool(more)

    def _next_character(self) -> bytes:
        """Advance to the next character that is not blank and return it; empty at the end of the file."""
        while True:
            rest = self.buffer[self.start :]
            self._advance(len(self.buffer) - len(rest.lstrip(BLANK)))
            if self.start < len(self.buffer) or not self._fill():
                return self.buffer[self.start : self.start + 1]

    def _advance(self, to: int) -> None:
        """Move `start` to the offset `to`, and the place in the file with it."""
        passed = self.buffer[self.start : to]
        breaks = passed.count(b"\n")
        if breaks:
            self.line, self.column = self.line + breaks, 1
            passed = passed[passed.rindex(b"\n") + 1 :]
        self.column += len(passed.decode("utf-8", "replace"))
        self.start = to

    def _diagnostic(self, cause: str, remedy: str) -> Diagnostic:
        return Diagnostic(cause, remedy, source=self.stream.name, line=self.line, column=self.column)


_TEXT = rb'"(?:[^"\\\n]++|\\[^\n])*+"'
_BETWEEN = re.compile(rb'(?:[^"\[\]{},]++|' + _TEXT + rb")*+")
_INSIDE = re.compile(rb'(?:[^"\[\]{}]++|' + _TEXT + rb")*+")
_BEGINS_WITH_LIST = re.compile(rb'\{\s*+"(?P<name>[^"\\]*+)"\s*+:\s*+\[')
