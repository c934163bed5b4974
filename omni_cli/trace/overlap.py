"""How much of one worker's output time lies behind its forwards, computed as the intervals arrive.

    forward  ├──── 1 ────┤├──── 2 ────┤   ├──── 3 ────┤
    output                ├d2h┤├encode──┤              ├d2h┤├encode┤
                          └─ hidden: 2 ─┘└gap┘         └── not hidden ──┘

A forward is known when it ends, an output interval likewise, and either may be reported first. So each new forward is laid
over the outputs that reach past the last known forward (`pending`), and each new output over the forwards already known
(`recent`). Forwards of a worker are reported in the order they ran; what overlaps the one before counts once.
"""

import math
from collections import deque

from omni_cli.request import Interval

WINDOW = 1024
"""Forwards, and outputs without a later forward, that are remembered per worker: far more than can be in flight."""


class Overlap:
    """Running figures of one worker, all in seconds; memory does not grow with the number of requests."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self.forwards = 0
        self.forward_seconds = 0.0
        self.output_seconds = 0.0
        self.hidden_seconds = 0.0
        self.idle_seconds = 0.0
        self.longest_gap = 0.0
        self._first = math.inf
        self._frontier = -math.inf
        self._recent: deque[Interval] = deque(maxlen=WINDOW)
        self._pending: deque[Interval] = deque(maxlen=WINDOW)

    @property
    def span_seconds(self) -> float:
        """From the start of the first forward to the end of the last; 0 before there is one."""
        return max(0.0, self._frontier - self._first)

    def add_forward(self, forward: Interval) -> None:
        """Take in a forward pass that has ended."""
        self.forwards += 1
        self.forward_seconds += max(0.0, forward.seconds)
        if self.forwards > 1:
            gap = max(0.0, forward.start - self._frontier)
            self.idle_seconds += gap
            self.longest_gap = max(self.longest_gap, gap)
        self._first = min(self._first, forward.start)
        fresh = Interval(max(forward.start, self._frontier), forward.end)
        if fresh.seconds <= 0:
            return
        self._frontier = fresh.end
        self._recent.append(fresh)
        self.hidden_seconds += sum(_common(fresh, output) for output in self._pending)
        self._pending = deque((output for output in self._pending if output.end > fresh.end), maxlen=WINDOW)

    def add_output(self, output: Interval) -> None:
        """Take in a stretch of output work (D2H, encode or write) of a request that this worker computed."""
        if output.seconds <= 0:
            return
        self.output_seconds += output.seconds
        for forward in reversed(self._recent):
            if forward.end <= output.start:
                break
            self.hidden_seconds += _common(forward, output)
        if output.end > self._frontier:
            self._pending.append(output)


def _common(one: Interval, other: Interval) -> float:
    """Seconds that both intervals cover."""
    return max(0.0, min(one.end, other.end) - max(one.start, other.start))
