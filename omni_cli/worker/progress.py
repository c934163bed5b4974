"""Steps of a forward, told no more often than anybody can look."""

import time
from collections.abc import Callable

INTERVAL_S = 0.05
"""At most twenty a second: each costs a message, a wake-up of the parent and a redraw."""


class StepTeller:
    """Passes steps of one call on, thinned out; the last one always."""

    def __init__(self, tell: Callable[[int, int], None], clock: Callable[[], float] = time.monotonic) -> None:
        """`tell` takes (step, total)."""
        self._tell = tell
        self._clock = clock
        self._next = 0.0

    def __call__(self, step: int, total: int) -> None:
        """Step `step` of `total`, counted from 1, is done."""
        now = self._clock()
        if now >= self._next or step == total:
            self._next = now + INTERVAL_S
            self._tell(step, total)
