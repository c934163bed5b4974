"""A stream that survives its reader: after a closed pipe or a lost terminal it discards what is written."""

import os
import select
import threading
from collections.abc import Callable
from typing import TextIO

from omni_cli.storage.disk_errors import describe_error


class SafeStream:
    """A stream that any thread may write to, unbuffered where there is a file descriptor.

    Nothing stays in a buffer, so the interpreter has nothing to flush into a closed pipe when it exits. It has the part
    of the file protocol that rich uses. `broken` is set once a write fails.
    """

    def __init__(self, stream: TextIO, on_broken: Callable[[str], None] | None = None) -> None:
        """Flush `stream` and write to it; the thread whose write fails calls `on_broken` with the reason, once."""
        self._stream = stream
        self._lock = threading.Lock()
        self._on_broken = on_broken
        self.broken = False
        self.encoding = stream.encoding or "utf-8"
        try:
            self._fd: int | None = stream.fileno()
        except (OSError, ValueError):  # StringIO, a captured stream, a closed one
            self._fd = None
        self.flush()

    def write(self, text: str) -> int:
        """Write `text`, with backslash escapes for characters that the encoding lacks."""
        self.write_bytes(text.encode(self.encoding, "backslashreplace"))
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        """Write all of `data`, unless the stream is broken."""
        with self._lock:
            if self.broken:
                return
            try:
                self._write_all(data)
                return
            except (OSError, ValueError) as error:  # EPIPE, EIO, ENOSPC, "I/O operation on closed file"
                self.broken = True
                reason = describe_error(error) if isinstance(error, OSError) else str(error)
        if self._on_broken is not None:
            self._on_broken(reason)

    def _write_all(self, data: bytes) -> None:
        if self._fd is None:
            self._stream.write(data.decode(self.encoding, "backslashreplace"))
            self._stream.flush()
            return
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:  # another process made the shared terminal non-blocking
                select.select([], [self._fd], [])

    def flush(self) -> None:
        """Flush the buffer of the stream itself."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self.broken = True

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        try:
            return not self.broken and self._stream.isatty()
        except ValueError:
            return False

    def fileno(self) -> int:
        """Return the file descriptor. Raises OSError if there is none."""
        if self._fd is None:
            raise OSError("this stream has no descriptor")
        return self._fd

    def same_terminal(self, other: "SafeStream") -> bool:
        """Return whether both are one terminal, where lines of one would land in the drawing of the other."""
        if not (self.isatty() and other.isatty()) or self._fd is None or other._fd is None:
            return False
        return os.path.sameopenfile(self._fd, other._fd)
