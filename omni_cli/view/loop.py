"""The thread of a view: observers only leave word, this thread draws and writes.

observers (any thread) ── wake ──> loop thread ── step ──> terminal, log or pipe, which may be slow
"""

import threading
from collections import deque
from collections.abc import Callable

from omni_cli.log import logger
from omni_cli.view.outlet import Outlet


class Loop:
    """Calls `step` when woken, or when the seconds that `step` returned are over; never more often than `spacing`."""

    def __init__(self, step: Callable[[], float | None], *, spacing: float, name: str) -> None:
        """Start the thread. `spacing` in seconds."""
        self._step = step
        self._spacing = spacing
        self._woken = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Ask for a step; returns at once."""
        self._woken.set()

    def close(self) -> None:
        """End the thread, after the step it may be in."""
        self._stop.set()
        self._woken.set()
        self._thread.join()

    def _run(self) -> None:
        due: float | None = 0.0
        while not self._stop.is_set():
            self._woken.wait(due)
            self._woken.clear()
            if self._stop.is_set():
                return
            try:
                due = self._step()
            except Exception:  # the boundary of the view: a fault in drawing must not take the run along
                logger.exception("the view stopped drawing")
                return
            if self._spacing:
                self._stop.wait(self._spacing)


class Lines:
    """Lines to an outlet in the order they were put, one write for all that have gathered.

    Lines are data and none is lost, so they wait in memory while the reader is slow; `lag` says how many do.
    """

    def __init__(self, outlet: Outlet, name: str) -> None:
        """Start the writing thread."""
        self._outlet = outlet
        self._waiting: deque[bytes] = deque()
        self._loop = Loop(self._write, spacing=0, name=name)

    @property
    def lag(self) -> int:
        """Lines that are not written yet."""
        return len(self._waiting)

    def put(self, line: bytes) -> None:
        """Add a line, without its end; returns at once."""
        if not self._outlet.gone:
            self._waiting.append(line)
            self._loop.wake()

    def close(self) -> None:
        """Write what is left, however long the reader takes, and end the thread."""
        self._loop.close()
        self._write()

    def _write(self) -> None:
        gathered = bytearray()
        while self._waiting:
            gathered += self._waiting.popleft() + b"\n"
            if len(gathered) >= 1 << 16 or not self._waiting:
                self._outlet.write_bytes(bytes(gathered))
                gathered.clear()
