"""How a run is asked to stop, from a signal's thread or any other."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stop:
    """A flag that wakes whoever waits for results. `exit_code` is what the process says if the stop cut the run short."""

    def __init__(self) -> None:
        """Not requested."""
        self.requested = False
        self.exit_code = 128 + signal.SIGINT
        self._wake: list[Callable[[], None]] = []

    def request(self, number: int = signal.SIGINT) -> None:
        """No new forwards from now on; `number` is the signal that asked. Only the first request counts for the exit code."""
        if not self.requested:
            self.exit_code = 128 + number
        self.requested = True
        for wake in list(self._wake):
            wake()

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """While the block lasts, call `wake` when a stop is requested; at once if it already is. Any thread may call it."""
        self._wake.append(wake)
        if self.requested:
            wake()
        try:
            yield
        finally:
            self._wake.remove(wake)
