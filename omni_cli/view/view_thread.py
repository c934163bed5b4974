"""The thread of a view, so that observers return at once.

observers (any thread) ── wake ──> view thread ── step ──> terminal, log or pipe, which may be slow
"""

import threading
from collections import deque
from collections.abc import Callable

from omni_cli.log import logger
from omni_cli.view.safe_stream import SafeStream

MAX_WRITE_BYTES = 1 << 16
"""Bytes of gathered lines above which LineWriter writes without gathering more."""


class ViewThread:
    """A thread that calls `step` when woken, or when the seconds that `step` returned have passed."""

    def __init__(self, step: Callable[[], float | None], *, min_interval: float, name: str) -> None:
        """Start the thread. At least `min_interval` seconds pass between two calls of `step`."""
        self._step = step
        self._min_interval = min_interval
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Request a step; return at once."""
        self._wake.set()

    def close(self) -> None:
        """End the thread, after a step that is running."""
        self._stop.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        timeout: float | None = 0.0
        while not self._stop.is_set():
            self._wake.wait(timeout)
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                timeout = self._step()
            except Exception:  # boundary: an error in drawing must not end the run
                logger.exception("the view stopped drawing")
                return
            if self._min_interval:
                self._stop.wait(self._min_interval)


class LineWriter:
    """A queue of lines for a stream, with a thread that writes all waiting lines at once.

    No line is dropped: lines wait in memory while the reader is slow, and `backlog` counts them.
    """

    def __init__(self, stream: SafeStream, name: str) -> None:
        """Start the writing thread."""
        self._stream = stream
        self._waiting: deque[bytes] = deque()
        self._thread = ViewThread(self._write, min_interval=0, name=name)

    @property
    def backlog(self) -> int:
        """Lines that are not written yet."""
        return len(self._waiting)

    def put(self, line: bytes) -> None:
        """Queue a line without its line break; return at once."""
        if not self._stream.broken:
            self._waiting.append(line)
            self._thread.wake()

    def close(self) -> None:
        """Write the queued lines, however slow the reader is, and end the thread."""
        self._thread.close()
        self._write()

    def _write(self) -> None:
        gathered = bytearray()
        while self._waiting:
            gathered += self._waiting.popleft() + b"\n"
            if len(gathered) >= MAX_WRITE_BYTES or not self._waiting:
                self._stream.write_bytes(bytes(gathered))
                gathered.clear()
