"""A stream that may go away: a closed pipe or a lost terminal silences it and never reaches the run."""

import os
import select
import threading
from collections.abc import Callable
from typing import TextIO

from omni_cli.disk import reason


class Outlet:
    """Writes text or bytes at once, past the stream's own buffer where there is a descriptor, from any thread.

    Nothing stays in a buffer, so the interpreter has nothing to flush into a closed pipe when it exits. It has the part of
    the file protocol that rich asks for. `on_gone` is called once with the reason, by the thread whose write failed.
    """

    def __init__(self, stream: TextIO, on_gone: Callable[[str], None] | None = None) -> None:
        """Write to `stream`, after what it has buffered so far."""
        self._stream = stream
        self._lock = threading.Lock()
        self._on_gone = on_gone
        self.gone = False
        self.encoding = stream.encoding or "utf-8"
        self._fd = self._descriptor()
        self.flush()

    def _descriptor(self) -> int | None:
        try:
            return self._stream.fileno()
        except (OSError, ValueError):  # StringIO, a captured stream, a closed one
            return None

    def write(self, text: str) -> int:
        """Write `text`; what the encoding lacks is written as backslash escapes."""
        self.write_bytes(text.encode(self.encoding, "backslashreplace"))
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        """Write `data`, all of it, unless the stream is gone."""
        with self._lock:
            if self.gone:
                return
            try:
                self._put(data)
                return
            except (OSError, ValueError) as error:  # EPIPE, EIO, ENOSPC, "I/O operation on closed file"
                self.gone = True
                why = reason(error) if isinstance(error, OSError) else str(error)
        if self._on_gone is not None:
            self._on_gone(why)

    def _put(self, data: bytes) -> None:
        if self._fd is None:
            self._stream.write(data.decode(self.encoding, "backslashreplace"))
            self._stream.flush()
            return
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:  # whoever shares the terminal made it non-blocking
                select.select([], [self._fd], [])

    def flush(self) -> None:
        """Write out what others left in the stream's buffer."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self.gone = True

    def isatty(self) -> bool:
        """Whether a terminal is at the other end."""
        try:
            return not self.gone and self._stream.isatty()
        except ValueError:
            return False

    def fileno(self) -> int:
        """The descriptor; OSError where there is none."""
        if self._fd is None:
            raise OSError("this stream has no descriptor")
        return self._fd

    def same_terminal(self, other: "Outlet") -> bool:
        """Whether both lead to one terminal, where lines of one would land inside the drawing of the other."""
        if not (self.isatty() and other.isatty()) or self._fd is None or other._fd is None:
            return False
        return os.path.sameopenfile(self._fd, other._fd)
