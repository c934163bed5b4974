"""Where bytes come from: files, pipes and standard input, as chunks or lines, never more than a row of them at a time."""

import io
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from omni_cli.errors import UsageError
from omni_cli.prompts.row import MAX_BYTES
from omni_cli.prompts.shown import escaped

CHUNK = 64 * 1024

STDIN = "-"

BLANK = b" \t\r\n"

_FAR = 1024 * 1024
"""Blank bytes at the start of a source that are looked past to find what it holds."""

_UTF8_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}


class Line(NamedTuple):
    """A physical line, without its line feed. `raw` is None if the line is longer than a row may be."""

    number: int
    raw: bytes | None


class Stream:
    """Bytes that are read once, front to back. `name` is the source's name, made safe to print.

    The first bytes may be looked at before they are taken; a UTF-8 byte order mark is dropped.
    """

    def __init__(self, binary: BinaryIO, name: str) -> None:
        """Read from `binary`; taking what a pipe has, not waiting until a chunk is full."""
        self.name = name
        self._read = binary.read1 if isinstance(binary, io.BufferedIOBase) else binary.read
        self._head = self._take()
        while self._head and len(self._head) < 4 and (more := self._take()):
            self._head += more
        self.encoding_fault = _wide_encoding(self._head)
        self._head = self._head.removeprefix(_UTF8_BOM)

    def first(self) -> bytes:
        """The first byte that is not white space, without taking it; empty if there is none in reach."""
        while not self._head.strip(BLANK) and len(self._head) < _FAR and (more := self._take()):
            self._head += more
        return self._head.lstrip(BLANK)[:1]

    def chunk(self) -> bytes:
        """The next bytes, as many as come at once; empty at the end."""
        head, self._head = self._head, b""
        return head or self._take()

    def chunks(self, least: int) -> bytes:
        """At least `least` bytes, fewer only at the end. Doubling a buffer this way keeps a scan of it linear."""
        parts = [self.chunk()]
        size = len(parts[0])
        while parts[-1] and size < least:
            parts.append(self.chunk())
            size += len(parts[-1])
        return b"".join(parts)

    def lines(self) -> Iterator[Line]:
        """The physical lines, ended by line feeds and numbered from 1."""
        number, pieces, size = 1, list[bytes](), 0
        while chunk := self.chunk():
            head, *rest = chunk.split(b"\n")
            size += len(head)
            pieces = [*pieces, head] if size <= MAX_BYTES else []
            for part in rest:
                raw = pieces[0] if len(pieces) == 1 else b"".join(pieces)
                yield Line(number, raw if size <= MAX_BYTES else None)
                number, pieces, size = number + 1, [part], len(part)
        if size:
            yield Line(number, b"".join(pieces) if size <= MAX_BYTES else None)

    def _take(self) -> bytes:
        try:
            return self._read(CHUNK)
        except OSError as error:
            raise UsageError(f"cannot read {self.name}: {error.strerror or error}") from error


def display_name(source: str | Path) -> str:
    """The name of a source in messages."""
    return "<stdin>" if source == STDIN else escaped(str(source))


def is_pipe(source: str | Path) -> bool:
    """True if `source` is read once and has no meaningful extension: standard input, a named pipe, `<(command)`.

    Raises UsageError if it is a file that does not exist or a folder.
    """
    if source == STDIN:
        return True
    try:
        mode = Path(source).stat().st_mode
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot read prompts from {display_name(source)}: {reason}; check the path") from error
    if stat.S_ISDIR(mode):
        raise UsageError(f"cannot read prompts from {display_name(source)}: it is a folder; name a file in it")
    return not stat.S_ISREG(mode)


@contextmanager
def opened(source: str | Path, stdin: BinaryIO | None) -> Iterator[Stream]:
    """The bytes of `source`; of `stdin`, else the process's own standard input, if it is "-". Raises UsageError."""
    name = display_name(source)
    if source == STDIN:
        yield Stream(sys.stdin.buffer if stdin is None else stdin, name)
        return
    try:
        binary = Path(source).open("rb", buffering=0)  # noqa: SIM115 - only the opening may fail in these words
    except OSError as error:
        raise UsageError(f"cannot read prompts from {name}: {error.strerror}; check its permissions") from error
    with binary:
        yield Stream(binary, name)


def _wide_encoding(head: bytes) -> str | None:
    """The name of the encoding if the file is not in bytes of UTF-8 but in wider units."""
    for mark, encoding in _WIDE_BOMS.items():
        if head.startswith(mark):
            return encoding
    return "UTF-16" if len(head) >= 4 and (head[:4:2] == b"\0\0") != (head[1:4:2] == b"\0\0") else None
