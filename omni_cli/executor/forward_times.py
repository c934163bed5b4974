"""How long a forward may take: as the user says, or by the slowest forward of its shape so far."""

import threading

from omni_cli.config import ForwardTimeout
from omni_cli.shape import Shape

FACTOR = 20
"""Times the slowest forward so far that a forward of the same shape may take with "auto"."""

LEAST_S = 120.0
"""Seconds that any forward may take with "auto"."""


class ForwardTimes:
    """The forwards of one executor. Safe from any thread."""

    def __init__(self, timeout: ForwardTimeout) -> None:
        """Take the limit: seconds, "auto", or None for none."""
        self._timeout = timeout
        self._lock = threading.Lock()
        self._slowest: dict[Shape, float] = {}

    def record(self, shape: Shape, seconds: float) -> None:
        """Remember a finished forward."""
        with self._lock:
            self._slowest[shape] = max(seconds, self._slowest.get(shape, 0.0))

    def limit(self, shape: Shape | None) -> float | None:
        """Return the seconds that a forward may take; None for no limit, with "auto" for the first of its shape.

        A call whose requests were all cancelled has no `shape`: "auto" does not limit it.
        """
        if self._timeout != "auto":
            return self._timeout
        with self._lock:
            slowest = None if shape is None else self._slowest.get(shape)
        return None if slowest is None else max(LEAST_S, FACTOR * slowest)
