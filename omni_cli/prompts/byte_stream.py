"""The bytes of files, pipes and standard input, as chunks or lines; at most one row is in memory at a time."""

import io
import stat
import sys
from codecs import IncrementalDecoder
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import BinaryIO

import msgspec

from omni_cli.errors import UsageError
from omni_cli.prompts.encoding import decoder_of, wide_encoding
from omni_cli.prompts.missing_file import missing_file
from omni_cli.text import escape

MAX_BYTES = 64 * 1024 * 1024
"""Longest row that is read; a longer one is a mistake, so that no input can fill the memory."""

CHUNK_BYTES = 64 * 1024

STDIN = "-"

BLANK = b" \t\r\n"

_MAX_INSPECTED = 1024 * 1024
"""Bytes at the start of a source that are inspected to find its format."""

_UTF8_MARK = b"\xef\xbb\xbf"


class RawRow(msgspec.Struct, frozen=True, gc=False):
    """The bytes of a row and the place of the first, counted from 1. `raw` is None if the row exceeds MAX_BYTES."""

    line: int
    column: int
    raw: bytes | None


class ByteStream:
    """The bytes of a text in UTF-8 that are read once, front to back. `name` is the source's name, safe to print.

    A source in another encoding is decoded. A byte order mark is dropped. Where lines end in carriage returns alone,
    as on old Macs, these become line feeds. The first bytes can be inspected before they are read.
    """

    def __init__(self, binary: BinaryIO | FileIO, name: str, encoding: str | None = None) -> None:
        """Read from `binary`: whatever a pipe has, without waiting for a full chunk.

        The encoding is `encoding`, else UTF-8, or UTF-16 or UTF-32 where its first bytes say so. Raises UsageError if
        the source cannot be read.
        """
        self.name = name
        self._read = binary.read1 if isinstance(binary, io.BufferedIOBase) else binary.read
        self._decoder: IncrementalDecoder | None = None
        self._returns_end_lines = False
        head = self._read_chunk()
        while head and len(head) < 4 and (more := self._read_chunk()):
            head += more
        encoding = encoding or wide_encoding(head)
        if encoding is not None:
            self._decoder = decoder_of(encoding)
            head = self._decoded(head) or self._read_chunk()
        head = head.removeprefix(_UTF8_MARK)
        self._returns_end_lines = b"\r" in head[:-1] and b"\n" not in head
        self._head = head.replace(b"\r", b"\n") if self._returns_end_lines else head

    def first(self) -> bytes:
        """Return the first byte that is not blank without reading it; empty if there is none near."""
        while not self._head.strip(BLANK) and len(self._head) < _MAX_INSPECTED and (more := self._read_chunk()):
            self._head += more
        return self._head.lstrip(BLANK)[:1]

    def inspected(self) -> bytes:
        """Return what has been read from the source and not from the stream: from `first()` on, more than blanks."""
        return self._head

    def first_lines(self, count: int) -> list[bytes]:
        """Return up to `count` first lines that are not blank, without the blanks around them and without reading them.

        Only the beginning of a line of more than 1 MiB is returned.
        """
        ended = False
        while True:
            whole = self._head.split(b"\n")
            lines = [line for raw in (whole if ended else whole[:-1]) if (line := raw.strip(BLANK))]
            if ended or len(lines) >= count or len(self._head) >= _MAX_INSPECTED:
                return lines[:count] or [self._head.strip(BLANK)]
            more = self._read_chunk()
            self._head += more
            ended = not more

    def chunks(self, least: int) -> bytes:
        """Read at least `least` bytes, fewer only at the end."""
        parts = [self._next_chunk()]
        size = len(parts[0])
        while parts[-1] and size < least:
            parts.append(self._next_chunk())
            size += len(parts[-1])
        return b"".join(parts)

    def lines(self) -> Iterator[RawRow]:
        """Read the physical lines, without their line feeds."""
        number, pieces, size = 1, list[bytes](), 0
        while chunk := self._next_chunk():
            head, *rest = chunk.split(b"\n")
            size += len(head)
            pieces = [*pieces, head] if size <= MAX_BYTES else []
            if rest:
                yield RawRow(number, 1, b"".join(pieces) if size <= MAX_BYTES else None)
                *whole_lines, tail = rest
                for raw in whole_lines:
                    number += 1
                    yield RawRow(number, 1, raw)
                number, pieces, size = number + 1, [tail], len(tail)
        if size:
            yield RawRow(number, 1, b"".join(pieces) if size <= MAX_BYTES else None)

    def _next_chunk(self) -> bytes:
        head, self._head = self._head, b""
        return head or self._read_chunk()

    def _read_chunk(self) -> bytes:
        chunk = self._read_raw()
        if self._decoder is not None:
            chunk = self._decoded(chunk)
        return chunk.replace(b"\r", b"\n") if self._returns_end_lines else chunk

    def _read_raw(self) -> bytes:
        try:
            return self._read(CHUNK_BYTES)
        except OSError as error:
            raise UsageError(f"cannot read {self.name}: {error.strerror or error}") from error

    def _decoded(self, chunk: bytes) -> bytes:
        """Return `chunk` in UTF-8; of one that ends within its first character, that and more.

        What cannot be decoded becomes bytes that are not UTF-8 either, so that its row is a mistake.
        """
        assert self._decoder is not None
        text = self._decoder.decode(chunk, final=not chunk)
        while chunk and not text:
            chunk = self._read_raw()
            text = self._decoder.decode(chunk, final=not chunk)
        return text.encode("utf-8", "surrogatepass")


def display_name(source: str | Path) -> str:
    """Return the name of a source for messages, safe to print."""
    return "<stdin>" if source == STDIN else escape(str(source))


def is_pipe(source: str | Path) -> bool:
    """Return True for standard input, a named pipe or `<(command)`: read once, and its extension means nothing.

    Raises UsageError if `source` does not exist or is a folder.
    """
    if source == STDIN:
        return True
    try:
        mode = Path(source).stat().st_mode
    except (OSError, ValueError) as error:
        raise UsageError(missing_file(str(source), error)) from error
    if stat.S_ISDIR(mode):
        raise UsageError(f"cannot read prompts from {display_name(source)}: it is a folder; name a file in it")
    return not stat.S_ISREG(mode)


def open_file(source: str | Path) -> FileIO:
    """Open the file `source` for reading, unbuffered. Raises UsageError if it cannot be opened."""
    try:
        return FileIO(source)
    except OSError as error:
        raise UsageError(
            f"cannot read prompts from {display_name(source)}: {error.strerror}; check its permissions"
        ) from error


@contextmanager
def open_stream(source: str | Path, binary: BinaryIO | None, encoding: str | None = None) -> Iterator[ByteStream]:
    """Read `source` from `binary`, which stays open; without it from the file, or standard input for "-".

    Raises UsageError if the file cannot be opened.
    """
    name = display_name(source)
    if binary is not None or source == STDIN:
        yield ByteStream(sys.stdin.buffer if binary is None else binary, name, encoding)
        return
    with open_file(source) as file:
        yield ByteStream(file, name, encoding)
