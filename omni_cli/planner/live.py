"""A pipe whose writer takes its time: what is there at once is a file, what goes on is a stream.

within GRACE_S the end ──> Ended(bytes): every fault is told before anything is loaded, as for a file
still open ──────────────> Going(stream): each row is judged, and rendered, as it comes
"""

import io
import os
import select
import time
from typing import BinaryIO

GRACE_S = 0.3
"""How long the end of a pipe is waited for; `cat prompts.jsonl |` takes a few milliseconds."""

HEAD_BYTES = 64 << 20
"""A pipe that gives more than this within GRACE_S is a stream, too: memory does not grow with it."""

_CHUNK = 1 << 16


class Pipe(io.RawIOBase):
    """A descriptor with some of its bytes already read: they come first."""

    def __init__(self, head: bytes, descriptor: int) -> None:
        """`descriptor` is the caller's to close."""
        self._head = memoryview(head)
        self._descriptor = descriptor

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        """As much as is there, at most one buffer full; waits if nothing is."""
        if self._head:
            size = min(len(buffer), len(self._head))
            buffer[:size], self._head = self._head[:size], self._head[size:]
            return size
        data = os.read(self._descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)


def head_of(descriptor: int, grace: float = GRACE_S) -> tuple[bytes, bool]:
    """What the pipe gives within `grace` seconds, and whether it has ended."""
    parts: list[bytes] = []
    size, deadline = 0, time.monotonic() + grace
    while size < HEAD_BYTES:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            break
        data = os.read(descriptor, _CHUNK)
        if not data:
            return b"".join(parts), True
        parts.append(data)
        size += len(data)
    return b"".join(parts), False


def going_on(head: bytes, descriptor: int) -> BinaryIO:
    """`head` and then what still comes, as one buffered stream that does not wait to fill its buffer (`read1`)."""
    return io.BufferedReader(Pipe(head, descriptor), _CHUNK)
