"""A JSON array, cut into its elements while it is read, so that a file of any length needs the memory of one request."""

import re
from collections.abc import Generator, Iterator
from typing import NamedTuple

from omni_cli.errors import Problem
from omni_cli.prompts.jsonl import parse, read_row, too_long
from omni_cli.prompts.row import MAX_BYTES, Located, Row
from omni_cli.prompts.source import BLANK, CHUNK, Stream
from omni_cli.request import GenerationRequest


def read_array(stream: Stream, defaults: GenerationRequest) -> Iterator[Located | Problem]:
    """The requests of a JSON array; a lone object counts as an array of one."""
    if stream.first() == b"{":
        raw = stream.chunks(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            yield too_long(stream.name, 1, 1)
        else:
            yield from read_row(Row(stream.name, 1, 1, raw, parse), 0, defaults)
        return
    index = 0
    for piece in _Cutter(stream).pieces():
        if isinstance(piece, Problem):
            yield piece
        else:
            yield from read_row(Row(stream.name, piece.line, piece.column, piece.raw, parse), index, defaults)
            index += 1


class _Piece(NamedTuple):
    """The text of one element without the blanks around it, and the place of its first character."""

    line: int
    column: int
    raw: bytes


class _Cutter:
    """Finds the commas between elements. It knows strings and brackets and nothing else: an element's own scan judges it.

    `buffer` from `start` on is read and not yet cut off; `line` and `column` are the place of the character at `start`.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.buffer, self.start = b"", 0
        self.line, self.column = 1, 1

    def pieces(self) -> Iterator[_Piece | Problem]:
        """The elements, and what is wrong between them."""
        if self._next_mark() != b"[":
            yield self._problem("a JSON file of requests begins with [", "if it has one request a line, name it .jsonl")
            return
        self._advance(self.start + 1)
        complete = yield from self._elements()
        if complete and self._next_mark():
            yield self._problem("more text after the end of the array", "remove it, or put all requests in one array")

    def _elements(self) -> Generator[_Piece | Problem, None, bool]:
        """The elements up to the bracket that closes the array; False if reading cannot go on to it."""
        closer = b","
        comma: tuple[int, int] | None = None
        while closer == b",":
            end = self._element_end()
            if end is None:
                yield too_long(self.stream.name, self.line, self.column)
                return False
            text, closer = self.buffer[self.start : end], self.buffer[end : end + 1]
            self._advance(end - len(text.lstrip(BLANK)))
            if len(text) > MAX_BYTES:
                yield too_long(self.stream.name, self.line, self.column)
            elif raw := text.strip(BLANK):
                yield _Piece(self.line, self.column, raw)
            elif closer == b",":
                yield self._problem("nothing before this comma", "remove it")
            elif closer and comma is not None:
                yield Problem(self.stream.name, *comma, "", "trailing comma before ]", "remove it")
            self._advance(end)
            comma = self.line, self.column
            self._advance(end + len(closer))
        if not closer:
            yield self._problem("the array is not closed", "the file may be cut off; end it with ]")
        return bool(closer)

    def _element_end(self) -> int | None:
        """Offset of the comma or bracket after the element at `start`; of the end of the file; None if it is too long."""
        at, depth = self.start, 0
        while True:
            found = (_INSIDE if depth else _BETWEEN).match(self.buffer, at)
            assert found is not None
            at = found.end()
            mark = self.buffer[at : at + 1]
            line_end = self.buffer.find(b"\n", at) if mark == b'"' else -1
            if line_end >= 0:
                at = (
                    line_end  # text cannot hold a line break, so this one lacks its quote: the next line is sound again
                )
            elif mark in (b"", b'"'):
                at -= self.start
                if len(self.buffer) - self.start > MAX_BYTES:
                    return None
                if not self._fill():
                    return len(self.buffer)
            elif depth == 0 and mark in (b",", b"]"):
                return at
            else:
                depth = depth + 1 if mark in (b"{", b"[") else max(depth - 1, 0)
                at += 1

    def _fill(self) -> bool:
        """Read more, and forget what has been cut off; False at the end of the file. `start` becomes 0."""
        self.buffer, self.start = self.buffer[self.start :], 0
        more = self.stream.chunks(self._stride())
        self.buffer += more
        return bool(more)

    def _stride(self) -> int:
        """How much to read: as much again as there is, so that scanning a long element stays linear, up to the limit."""
        pending = len(self.buffer)
        return max(min(pending, MAX_BYTES + 1 - pending), 1) if pending > CHUNK else 1

    def _next_mark(self) -> bytes:
        """Go to the next character that is not blank, and tell which it is; empty at the end of the file."""
        while True:
            rest = self.buffer[self.start :]
            self._advance(len(self.buffer) - len(rest.lstrip(BLANK)))
            if self.start < len(self.buffer) or not self._fill():
                return self.buffer[self.start : self.start + 1]

    def _advance(self, to: int) -> None:
        """Move `start`, and with it the place in the file."""
        passed = self.buffer[self.start : to]
        breaks = passed.count(b"\n")
        if breaks:
            self.line, self.column = self.line + breaks, 1
            passed = passed[passed.rindex(b"\n") + 1 :]
        self.column += len(passed.decode("utf-8", "replace"))
        self.start = to

    def _problem(self, message: str, allowed: str) -> Problem:
        return Problem(self.stream.name, self.line, self.column, "", message, allowed)


_TEXT = rb'"(?:[^"\\\n]++|\\[^\n])*+"'
_BETWEEN = re.compile(rb'(?:[^"\[\]{},]++|' + _TEXT + rb")*+")
_INSIDE = re.compile(rb'(?:[^"\[\]{}]++|' + _TEXT + rb")*+")
