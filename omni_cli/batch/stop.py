"""The request to stop a run, made from a signal's thread or any other."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stop:
    """A flag that wakes threads waiting for results.

    `exit_code` is that of the process if the stop cuts the run short.
    """

    def __init__(self) -> None:
        self.requested = False
        self.exit_code = 128 + signal.SIGINT
        self._wakeups: list[Callable[[], None]] = []

    def request(self, number: int = signal.SIGINT) -> None:
        """Start no new forwards; `number` is the signal behind the request. Only the first request has an effect."""
        if self.requested:
            return
        self.exit_code = 128 + number
        self.requested = True
        for wake in list(self._wakeups):
            wake()

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Within the block, call `wake`, from any thread, when a stop is requested; at once if it already is."""
        self._wakeups.append(wake)
        if self.requested:
            wake()
        try:
            yield
        finally:
            self._wakeups.remove(wake)
