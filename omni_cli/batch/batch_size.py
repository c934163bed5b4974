"""The number of outputs per pipeline call: fixed, or found by measuring the run's own requests.

    1 ──> 2 ──> 4 ──> 8 ──> ...     doubled while the time per output falls by 5 % or more, else halved and settled

Each batch key (one shape, one set of settings) is measured on its own. Nothing is rendered for the measurement alone.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from omni_cli.executor.protocol import Handle, Output
from omni_cli.request import PlannedRequest

MAX_AUTO = 32
TRIALS = 2
"""Full calls per size; the faster one counts, because the first call of a shape includes set-up."""

MAX_COST_RATIO = 0.95
"""A larger size must cost at most this fraction of the smaller one's seconds per output."""

CALLS_AHEAD = 4
"""Calls open at a time: one running, one in the inbox, and those whose files are being written."""


@dataclass(slots=True)
class _Search:
    """The state of one batch key.

    `smaller_cost` is the seconds per output of the size below, `trials` those of this one.
    """

    size: int = 1
    settled: bool = False
    smaller_cost: float = float("inf")
    trials: list[float] = field(default_factory=list)


class BatchSize:
    """The size of calls, and the number of requests that are open for it. Thread-safe."""

    def __init__(self, fixed: int, workers: int, writers: int) -> None:
        """Set the number of outputs to `fixed`, or find it if that is 0.

        `workers`, which may change, and `writers` are to be kept busy by open requests.
        """
        self._fixed = fixed
        self.workers = workers
        self._writers = writers
        self._lock = threading.Lock()
        self._searches: dict[str, _Search] = {}

    @property
    def buffer_size(self) -> int:
        """The number of requests that may be buffered to fill a call."""
        return 1 if self._fixed == 1 else 2 * CALLS_AHEAD * (self._fixed or MAX_AUTO)

    def size(self, key: str) -> int:
        """Return the number of outputs for the next call of a batch key."""
        if self._fixed or not key:
            return self._fixed or 1
        with self._lock:
            return self._searches.setdefault(key, _Search()).size

    def window(self) -> int:
        """Return the number of requests that may be open: just enough calls to keep workers and writers busy."""
        with self._lock:
            size = self._fixed or max((search.size for search in self._searches.values()), default=1)
        return CALLS_AHEAD * size * self.workers + 2 * self._writers

    def watch(self, call: Sequence[PlannedRequest], handles: Sequence[Handle]) -> None:
        """Measure a submitted call when it ends."""
        key, outputs = call[0].shape.batch_key, sum(len(request.seeds) for request in call)
        if self._fixed or not key or not handles:
            return
        handles[0].output_ready.add_done_callback(lambda future: self._measure(key, outputs, future))

    def _measure(self, key: str, outputs: int, future: "Future[Output]") -> None:
        failed = future.cancelled() or future.exception() is not None
        with self._lock:
            search = self._searches[key]
            if search.settled or outputs != search.size:
                return
            if failed:  # perhaps because of its size: the size below worked
                search.size, search.settled = max(1, search.size // 2), search.size > 1
                return
            search.trials.append(future.result().forward.seconds / outputs)
            if len(search.trials) < TRIALS:
                return
            cost = min(search.trials)
            if cost > search.smaller_cost * MAX_COST_RATIO:
                search.size, search.settled = search.size // 2, True
            elif search.size * 2 > MAX_AUTO:
                search.settled = True
            else:
                search.size, search.smaller_cost, search.trials = search.size * 2, cost, []
