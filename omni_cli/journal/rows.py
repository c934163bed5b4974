"""Reading a manifest as a stream: which line is whose, which lines count, and how a torn end is mended.

What stays in memory is the index: for each id a 16-byte hash and the place of its last row packed into one integer,
about 130 bytes, so a million rows need about 130 MB. Rows are read back from the file when asked for.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from typing import BinaryIO

import msgspec

from omni_cli.errors import OutputFolderError
from omni_cli.log import logger
from omni_cli.request import OutputFile

MANIFEST_NAME = "manifest.jsonl"

_LENGTH_BITS = 32
NOT_A_ROW = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_ROW_START = b'{"schema_version"'


class Entry(msgspec.Struct, frozen=True):
    """The facts of a row that say whether its request is done; all else in the row is skipped unread."""

    id: str
    status: str
    fingerprint: str
    files: tuple[OutputFile, ...]


class _Named(msgspec.Struct, frozen=True):
    """What a row of another schema version may still share with ours."""

    id: str


_entries = msgspec.json.Decoder(Entry)
_names = msgspec.json.Decoder(_Named)


def read_entry(line: bytes) -> Entry | None:
    """The facts in `line`, or None if it is not a row."""
    try:
        return _entries.decode(line)
    except NOT_A_ROW:
        return None


def _read_id(line: bytes) -> str | None:
    """The id in `line`, even if the rest cannot be understood."""
    try:
        return _names.decode(line).id
    except NOT_A_ROW:
        return None


@dataclass(slots=True)
class RowIndex:
    """Where the last row of each id lies, and which rows a later one of the same id has replaced.

    `replaced` holds byte offsets, `unreadable` counts lines that are not rows of this schema. Places are byte ranges of
    the file that was indexed; they hold until it is compacted.
    """

    replaced: set[int] = field(default_factory=set)
    unreadable: int = 0
    _places: dict[bytes, int] = field(default_factory=dict)

    def put(self, request_id: str, offset: int, length: int) -> None:
        """The row of `request_id` is now the `length` bytes at `offset`."""
        key = _key(request_id)
        before = self._places.get(key)
        if before is not None:
            self.replaced.add(before >> _LENGTH_BITS)
        self._places[key] = offset << _LENGTH_BITS | length

    def find(self, request_id: str) -> tuple[int, int] | None:
        """(offset, length) of the row of `request_id`, if it has one."""
        place = self._places.get(_key(request_id))
        return None if place is None else (place >> _LENGTH_BITS, place & (1 << _LENGTH_BITS) - 1)


def _key(request_id: str) -> bytes:
    return blake2b(request_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def read_index(file: BinaryIO) -> RowIndex:
    """Index every complete line of `file`, a buffered binary stream at its start."""
    index = RowIndex()
    for offset, line in _lines(file):
        entry = read_entry(line)
        if entry is None:
            index.unreadable += 1
        request_id = _read_id(line) if entry is None else entry.id
        if request_id is not None:
            index.put(request_id, offset, len(line))
    return index


def kept_lines(file: BinaryIO, replaced: set[int]) -> Iterator[bytes]:
    """The complete lines of `file` that no later row has replaced, unreadable ones too."""
    return (line for offset, line in _lines(file) if offset not in replaced)


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """(offset, line with its newline) of each complete, non-empty line."""
    offset = 0
    for line in file:
        if line.endswith(b"\n") and line.strip():
            yield offset, line
        offset += len(line)


def open_manifest(path: Path) -> FileIO:
    """The manifest for reading and unbuffered appending, made if it is not there, its end mended.

    Raises OutputFolderError if the name is taken by something that is not a plain file, or it cannot be opened.
    """

    def opener(name: str, flags: int) -> int:
        # O_NONBLOCK: a FIFO of that name is refused below instead of waiting for its reader for ever.
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)

    try:
        file = FileIO(path, "ab+", opener=opener)
    except OSError as error:
        raise OutputFolderError(f"{str(path)!r} cannot be opened for appending: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OutputFolderError(f"{str(path)!r} is not a plain file; move it away or choose another --output-dir")
    _mend_end(file)
    return file


def _mend_end(file: FileIO) -> None:
    """Make the file end with a newline: finish a whole row, drop a torn one, keep what was never a row.

    A crash of the machine can leave a stretch of zero bytes where the row would have been; that is torn too.
    """
    size = os.fstat(file.fileno()).st_size
    start = _start_of_last_line(file.fileno(), size)
    tail = os.pread(file.fileno(), size - start, start)
    text = tail.rstrip(b"\0")
    if not tail:
        return
    os.ftruncate(file.fileno(), start + len(text))
    if text and read_entry(text) is None and (text.startswith(_ROW_START) or _ROW_START.startswith(text)):
        logger.warning("the last row of %s was cut short; its request counts as not done", MANIFEST_NAME)
        os.ftruncate(file.fileno(), start)
    elif text:
        file.write(b"\n")
    os.fsync(file.fileno())


def _start_of_last_line(descriptor: int, size: int) -> int:
    """Offset just behind the last newline of the file; `size` if it ends with one."""
    block = 1 << 16
    end = size
    while end > 0:
        begin = max(0, end - block)
        found = os.pread(descriptor, end - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0
