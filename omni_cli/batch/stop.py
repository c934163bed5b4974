"""How a run is asked to stop, from a signal handler or another thread."""

from collections.abc import Callable


class Stop:
    """A flag that wakes whoever waits for results.

    Setting it takes no lock, so a signal handler may call `request` whatever the main thread is in the middle of.
    """

    def __init__(self) -> None:
        """Not requested."""
        self.requested = False
        self._wake: list[Callable[[], None]] = []

    def request(self) -> None:
        """No new forwards from now on."""
        self.requested = True
        for wake in self._wake:
            wake()

    def on_request(self, wake: Callable[[], None]) -> None:
        """Call `wake` when a stop is requested, at once if it already is; it must be safe in a signal handler."""
        self._wake.append(wake)
        if self.requested:
            wake()
