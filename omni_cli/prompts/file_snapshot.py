"""The bytes of a prompt file as they were first read, for every later read of it.

    file, opened once ──┬─ up to MEMORY_BYTES ──> a copy in memory, which no later change of the file reaches
                        └─ longer ──────────────> a CheckedStream per read: each block must be as it was the first time

The open file stays the same one if its name is deleted or given to another file, as editors do.
"""

import io
import os
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from io import FileIO
from typing import BinaryIO, cast

from omni_cli.errors import UsageError

MEMORY_BYTES = 64 << 20
"""Longest prompt file of which a copy is kept in memory."""

BLOCK_BYTES = 1 << 20
"""Bytes of a longer file that are read, hashed and compared at once; a file of 1 GiB needs 1024 hashes."""


def take_snapshot(file: FileIO, name: str) -> Callable[[], BinaryIO]:
    """Return a function that returns a new stream over the bytes that `file`, which stays open, has now.

    What is appended to the file later is not read. `name` is the file's name in errors. Raises OSError.
    """
    head = read_all(file, MEMORY_BYTES + 1)
    if len(head) <= MEMORY_BYTES:
        return partial(io.BytesIO, head)
    size, digests = os.fstat(file.fileno()).st_size, dict[int, bytes]()
    return lambda: cast(BinaryIO, CheckedStream(file.fileno(), size, digests, name))


def read_all(binary: BinaryIO | FileIO, most: int) -> bytes:
    """Read `binary` to its end, but not more than `most` bytes. Raises OSError."""
    buffer = io.BytesIO()  # its value is not copied, as that of a list of parts would be
    while most > 0 and (part := binary.read(min(most, BLOCK_BYTES))):
        buffer.write(part)
        most -= len(part)
    return buffer.getvalue()


class CheckedStream(io.RawIOBase):
    """The first `size` bytes of an open file, each block of which must have the hash it had in the first stream.

    Reading raises UsageError for a block that was changed or cut off since it was first read.
    """

    def __init__(self, descriptor: int, size: int, digests: dict[int, bytes], name: str) -> None:
        """Share `digests`, the hash of each block that was read, with the other streams over the file."""
        self._descriptor = descriptor
        self._size = size
        self._digests = digests
        self._name = name
        self._position = 0
        self._number, self._data = -1, b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the offset of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to `offset` from the start, the current position or the end."""
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, origin + offset)
        return self._position

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        """Fill `buffer`, all of it unless the end comes first. Raises UsageError for a block that was changed."""
        filled = 0
        while filled < len(buffer) and self._position < self._size:
            number, start = divmod(self._position, BLOCK_BYTES)
            piece = self._block(number)[start : start + len(buffer) - filled]
            buffer[filled : filled + len(piece)] = piece
            filled += len(piece)
            self._position += len(piece)
        return filled

    def _block(self, number: int) -> bytes:
        if number != self._number:
            offset = number * BLOCK_BYTES
            size = min(BLOCK_BYTES, self._size - offset)
            data = b""
            while len(data) < size and (more := os.pread(self._descriptor, size - len(data), offset + len(data))):
                data += more
            digest = blake2b(data, digest_size=16).digest()
            if len(data) < size or self._digests.setdefault(number, digest) != digest:
                fault = "cut short" if len(data) < size else "changed"
                raise UsageError(f"{self._name} was {fault} after this run began to read it, at byte {offset} or later")
            self._number, self._data = number, data
        return self._data
