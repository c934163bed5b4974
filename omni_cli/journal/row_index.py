"""The index of a manifest: the byte range of each id's last row, which row names a file, and which rows were replaced.

It holds a 16-byte hash of the id, an 8-byte one of each file's name, and the range packed into one integer: about 250
bytes per row of one file, so a million rows need about 250 MB. Rows are read back from the file on demand.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from typing import BinaryIO

import msgspec

from omni_cli.errors import OutputFolderError
from omni_cli.log import logger
from omni_cli.request import SCHEMA_VERSION, OutputFile
from omni_cli.storage.filesystem import open_plain_file
from omni_cli.text import caseless

MANIFEST_NAME = "manifest.jsonl"

DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors of decoding a line that is not a row of this schema."""

_LENGTH_BITS = 32
_ROW_START = b'{"schema_version"'


class RowSummary(msgspec.Struct, frozen=True):
    """The fields of a row that decide whether its request is done; the others are not decoded."""

    id: str
    status: str
    fingerprint: str
    files: tuple[OutputFile, ...]
    seeds: tuple[int, ...] = ()
    schema_version: int = 1


class _RowId(msgspec.Struct, frozen=True):
    """The field that rows of any schema version have."""

    id: str


_summary_decoder = msgspec.json.Decoder(RowSummary, strict=False)
_id_decoder = msgspec.json.Decoder(_RowId)


def parse_row(line: bytes) -> RowSummary | None:
    """Return the summary of the row `line`, or None if it is not a row of this schema."""
    try:
        return _summary_decoder.decode(line)
    except DECODE_ERRORS:
        return None


@dataclass(slots=True)
class RowIndex:
    """Byte ranges of the last row of each id, valid until the manifest is compacted.

    `replaced`: offsets of rows that a later row of the same id has replaced. `unreadable`: number of lines that are not
    rows of this schema. `end`: offset behind the last line that was read.
    """

    replaced: set[int] = field(default_factory=set)
    unreadable: int = 0
    end: int = 0
    _ranges: dict[bytes, int] = field(default_factory=dict)
    _files: dict[int, int] = field(default_factory=dict)
    _version_1: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of ids that have a row."""
        return len(self._ranges)

    @property
    def has_version_1(self) -> bool:
        """Whether there is any row of schema version 1."""
        return bool(self._version_1)

    def version_1_rows(self) -> Iterator[tuple[int, int]]:
        """Yield (offset, length) of the rows of schema version 1 in file order, replaced ones too."""
        return map(_unpack, self._version_1)

    def put(
        self,
        request_id: str,
        offset: int,
        length: int,
        files: Iterable[OutputFile] = (),
        schema_version: int = SCHEMA_VERSION,
    ) -> None:
        """Make the `length` bytes at `offset` the last row of `request_id`, and the row that names `files`."""
        self.drop(request_id)
        packed = offset << _LENGTH_BITS | length
        self._ranges[_hash_id(request_id)] = packed
        for file in files:
            self._files[_hash_file(file.path)] = packed
        if schema_version == 1:
            self._version_1.append(packed)

    def drop(self, request_id: str) -> None:
        """Count the last row of `request_id`, if it has one, as replaced."""
        self.drop_key(_hash_id(request_id))

    def keys(self) -> Iterable[bytes]:
        """Return the hashes of the ids that have a row: of one id they are equal in all manifests."""
        return self._ranges.keys()

    def range_of(self, key: bytes) -> tuple[int, int]:
        """Return (offset, length) of the last row of the id with the hash `key`. Raises KeyError without one."""
        return _unpack(self._ranges[key])

    def drop_key(self, key: bytes) -> None:
        """Do `drop` for the id with the hash `key`."""
        previous = self._ranges.pop(key, None)
        if previous is not None:
            self.replaced.add(previous >> _LENGTH_BITS)

    def find(self, request_id: str) -> tuple[int, int] | None:
        """Return (offset, length) of the last row of `request_id`, None without one."""
        packed = self._ranges.get(_hash_id(request_id))
        return None if packed is None else _unpack(packed)

    def find_by_file(self, path: str) -> tuple[int, int] | None:
        """Return (offset, length) of the last row that may name a file like `path`, compared without case."""
        packed = self._files.get(_hash_file(path))
        return None if packed is None else _unpack(packed)


def _unpack(packed: int) -> tuple[int, int]:
    return packed >> _LENGTH_BITS, packed & (1 << _LENGTH_BITS) - 1


def _hash_file(path: str) -> int:
    return int.from_bytes(blake2b(caseless(path).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _hash_id(request_id: str) -> bytes:
    return blake2b(request_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def read_index(file: BinaryIO) -> RowIndex:
    """Index every complete line of `file`, a buffered binary stream at its start.

    A row of another schema version is unreadable, and replaced by a later row of its id.
    """
    index = RowIndex()
    for offset, line in _complete_lines(file):
        index.end = offset + len(line)
        row = parse_row(line)
        if row is not None:
            index.put(row.id, offset, len(line), row.files, row.schema_version)
            continue
        index.unreadable += 1
        with suppress(*DECODE_ERRORS):  # a line without an id is never replaced
            index.put(_id_decoder.decode(line).id, offset, len(line))
    return index


def current_lines(file: BinaryIO, replaced: set[int], end: int | None = None) -> Iterator[bytes]:
    """Yield the complete lines of `file`, up to `end`, that no later row has replaced, unreadable ones too."""
    for offset, line in _complete_lines(file):
        if end is not None and offset >= end:
            return
        if offset not in replaced:
            yield line


def _complete_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line with its newline) of each complete, non-empty line."""
    offset = 0
    for line in file:
        if line.endswith(b"\n") and line.strip():
            yield offset, line
        offset += len(line)


def open_for_append(path: Path) -> FileIO:
    """Open the manifest for reading and unbuffered appending; it is created if missing and its end is repaired.

    Raises OutputFolderError if it is not a plain file or cannot be opened.
    """
    try:
        file = FileIO(path, "ab+", opener=open_plain_file)
    except OSError as error:
        raise OutputFolderError(
            f"{str(path)!r} cannot be opened for appending: {error.strerror};"
            " move it away or choose another --output-dir"
        ) from error
    _repair_end(file)
    return file


def _repair_end(file: FileIO) -> None:
    """Make the file end with a newline: complete a whole row, drop a torn one, keep a line that never was a row.

    A crash of the machine can leave zero bytes in place of the row; they are dropped too.
    """
    size = os.fstat(file.fileno()).st_size
    start = _last_line_start(file.fileno(), size)
    tail = os.pread(file.fileno(), size - start, start)
    text = tail.rstrip(b"\0")
    if not tail:
        return
    os.ftruncate(file.fileno(), start + len(text))
    if text and parse_row(text) is None and (text.startswith(_ROW_START) or _ROW_START.startswith(text)):
        logger.warning("the last row of %s was cut short; its request counts as not done", MANIFEST_NAME)
        os.ftruncate(file.fileno(), start)
    elif text:
        file.write(b"\n")
    os.fsync(file.fileno())


def _last_line_start(descriptor: int, size: int) -> int:
    """Return the offset behind the last newline of the file of `size` bytes; `size` if it ends with one."""
    block = 1 << 16
    end = size
    while end > 0:
        begin = max(0, end - block)
        newline = os.pread(descriptor, end - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0
