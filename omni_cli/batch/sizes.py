"""How many outputs a pipeline call gets: a number that was asked for, or the one that measuring finds.

    1 ──> 2 ──> 4 ──> 8 ──> ...     up a rung while an output gets at least 5 % cheaper, else back down and stay

Each batch key (one shape, one set of settings) climbs for itself, on the run's own requests: nothing is rendered for the
measurement alone.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from omni_cli.executor.protocol import Handle, Output
from omni_cli.request import PlannedRequest

MAX_AUTO = 32
TRIALS = 2
"""Full calls of a size before it is judged, by the faster: the first one of a shape also pays for set-up."""
GAIN = 0.95

CALLS_AHEAD = 4
"""Calls that are open at a time: the running one, the next in the inbox, and those whose files are being written."""


@dataclass(slots=True)
class _Climb:
    """Where one batch key stands. `cost` is seconds per output."""

    size: int = 1
    settled: bool = False
    below: float = float("inf")
    trials: list[float] = field(default_factory=list)


class Sizes:
    """Sizes of calls. `fixed` is the asked number; 0 means to find it. Futures tell it from the pump's thread."""

    def __init__(self, fixed: int, workers: int, writers: int) -> None:
        """`workers` and `writers` are what the window of open requests has to keep busy."""
        self._fixed = fixed
        self._workers = workers
        self._writers = writers
        self._lock = threading.Lock()
        self._climbs: dict[str, _Climb] = {}

    @property
    def look_ahead(self) -> int:
        """How many requests may be looked at to fill a call."""
        return 1 if self._fixed == 1 else 2 * CALLS_AHEAD * (self._fixed or MAX_AUTO)

    def size(self, key: str) -> int:
        """Outputs of the next call of this batch key."""
        if self._fixed or not key:
            return self._fixed or 1
        with self._lock:
            return self._climbs.setdefault(key, _Climb()).size

    def window(self) -> int:
        """Requests that may be open: enough calls to keep workers and writers busy, not more."""
        with self._lock:
            size = self._fixed or max((climb.size for climb in self._climbs.values()), default=1)
        return CALLS_AHEAD * size * self._workers + 2 * self._writers

    def watch(self, call: Sequence[PlannedRequest], handles: Sequence[Handle]) -> None:
        """Learn from this call when it is over."""
        key, outputs = call[0].batch_key, sum(len(request.seeds) for request in call)
        if self._fixed or not key or not handles:
            return
        handles[0].output_ready.add_done_callback(lambda future: self._learn(key, outputs, future))

    def _learn(self, key: str, outputs: int, future: "Future[Output]") -> None:
        failed = future.cancelled() or future.exception() is not None
        with self._lock:
            climb = self._climbs[key]
            if climb.settled or outputs != climb.size:
                return
            if failed:  # perhaps for its size: the one below worked
                climb.size, climb.settled = max(1, climb.size // 2), climb.size > 1
                return
            climb.trials.append(future.result().forward.seconds / outputs)
            if len(climb.trials) < TRIALS:
                return
            cost = min(climb.trials)
            if cost > climb.below * GAIN:
                climb.size, climb.settled = climb.size // 2, True
            elif climb.size * 2 > MAX_AUTO:
                climb.settled = True
            else:
                climb.size, climb.below, climb.trials = climb.size * 2, cost, []
