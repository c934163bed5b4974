"""The order of requests: grouped by model, within a model by adapters, within adapters by size.

    planned ──> waiting: at most `look_ahead` + 1, each setup in its own order ──> planned, reordered

A switch of model costs a load, a switch of adapters a pass over the weights, a new size a compilation or an autotuning.
The source is read only while no request of the current setup waits. So a file of one setup streams through unchanged,
and the first request of any file goes at once.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator

from omni_cli.request import PlannedRequest
from omni_cli.shape import Setup

PATIENCE = 10
"""No request is overtaken by more than this many times `look_ahead` others, so none starves on an endless stream."""


def grouped(planned: Iterable[PlannedRequest], look_ahead: int) -> Iterator[PlannedRequest]:
    """Yield all of `planned` in an order with few switches; requests of one setup keep their own order."""
    source = iter(planned)
    waiting = _Waiting()
    current: Setup | None = None
    while True:
        current = _read_on(source, waiting, current, look_ahead)
        if current is None:
            return
        yield waiting.pop(current)


def _read_on(
    source: Iterator[PlannedRequest], waiting: "_Waiting", current: Setup | None, look_ahead: int
) -> Setup | None:
    """Return the next setup, None at the end. Read `source` while nothing of `current` waits and there is room."""
    if current in waiting:
        return current
    if waiting.is_overdue(PATIENCE * look_ahead):
        return waiting.oldest
    while len(waiting) <= look_ahead and (request := next(source, None)) is not None:
        waiting.add(request)
        if current is None or current in waiting:
            break
    if not len(waiting):
        return None
    return waiting.oldest if current is None else waiting.nearest(current)


class _Waiting:
    """Requests that wait, by setup and by age."""

    def __init__(self) -> None:
        self._numbers: dict[Setup, deque[int]] = {}
        self._requests: OrderedDict[int, PlannedRequest] = OrderedDict()
        self._added = 0

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, setup: object) -> bool:
        return setup in self._numbers

    def add(self, request: PlannedRequest) -> None:
        self._numbers.setdefault(request.shape.setup, deque()).append(self._added)
        self._requests[self._added] = request
        self._added += 1

    def pop(self, setup: Setup) -> PlannedRequest:
        """Remove and return the oldest request of `setup`."""
        numbers = self._numbers[setup]
        number = numbers.popleft()
        if not numbers:
            del self._numbers[setup]
        return self._requests.pop(number)

    @property
    def oldest(self) -> Setup:
        """The setup of the oldest request."""
        return next(iter(self._requests.values())).shape.setup

    def nearest(self, current: Setup) -> Setup:
        """Return the setup that costs least after `current`; of several, the one with the oldest request."""
        return max(self._numbers, key=lambda setup: (current.nearness(setup), -self._numbers[setup][0]))

    def is_overdue(self, patience: int) -> bool:
        """Return True if more than `patience` younger requests have overtaken the oldest one."""
        overtaken = self._added - next(iter(self._requests), self._added) - len(self._requests)
        return overtaken > patience
