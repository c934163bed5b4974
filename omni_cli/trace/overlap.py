"""The share of one worker's output time that lies behind its forwards, computed as intervals arrive.

    forward  ├──── 1 ────┤├──── 2 ────┤   ├──── 3 ────┤
    output                ├d2h┤├encode──┤              ├d2h┤├encode┤
                          └─ hidden: 2 ─┘└gap┘         └── not hidden ──┘

Forwards and outputs are reported when they end, in either order. So each new forward is intersected with the outputs
that reach past the last known forward (`_pending`), and each new output with the known forwards (`_recent`). Forwards
of a worker are reported in the order they ran; a stretch that two of them cover counts once.
"""

import math
from collections import deque

from omni_cli.request import Interval

WINDOW = 1024
"""Forwards, and outputs without a later forward, that are kept per worker: far more than can be in flight."""


class Overlap:
    """Running figures of one worker, in seconds; memory does not grow with the number of requests."""

    def __init__(self) -> None:
        """Start without intervals."""
        self.forwards = 0
        self.forward_seconds = 0.0
        self.output_seconds = 0.0
        self.hidden_seconds = 0.0
        self.idle_seconds = 0.0
        self.longest_gap = 0.0
        self._first = math.inf
        self._covered_to = -math.inf
        self._recent: deque[Interval] = deque(maxlen=WINDOW)
        self._pending: deque[Interval] = deque(maxlen=WINDOW)

    @property
    def span_seconds(self) -> float:
        """Seconds from the start of the first forward to the end of the last; 0 without forwards."""
        return max(0.0, self._covered_to - self._first)

    def add_forward(self, forward: Interval) -> None:
        """Add a forward pass that has ended."""
        self.forwards += 1
        self.forward_seconds += max(0.0, forward.seconds)
        if self.forwards > 1:
            gap = max(0.0, forward.start - self._covered_to)
            self.idle_seconds += gap
            self.longest_gap = max(self.longest_gap, gap)
        self._first = min(self._first, forward.start)
        uncounted = Interval(max(forward.start, self._covered_to), forward.end)
        if uncounted.seconds <= 0:
            return
        self._covered_to = uncounted.end
        self._recent.append(uncounted)
        self.hidden_seconds += sum(_common(uncounted, output) for output in self._pending)
        self._pending = deque((output for output in self._pending if output.end > uncounted.end), maxlen=WINDOW)

    def add_output(self, output: Interval) -> None:
        """Add output work (D2H, encode or write) of a request that this worker computed."""
        if output.seconds <= 0:
            return
        self.output_seconds += output.seconds
        for forward in reversed(self._recent):
            if forward.end <= output.start:
                break
            self.hidden_seconds += _common(forward, output)
        if output.end > self._covered_to:
            self._pending.append(output)


def _common(one: Interval, other: Interval) -> float:
    """Return the seconds that both intervals cover."""
    return max(0.0, min(one.end, other.end) - max(one.start, other.start))
