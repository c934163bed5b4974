"""The order of requests: what shares a model comes together, within it what shares adapters, within that one shape.

    planned ──> held back: at most `look_ahead`, those of each group in their own order ──> planned, in another order

A switch of model costs a load, a switch of adapters a pass over the weights, a new shape a compilation or an autotuning. The
source is read on only while nothing of the group at hand is held, so a file of one group is a stream as before, and the first
request of any file goes at once.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from omni_cli.request import PlannedRequest

PATIENCE = 10
"""No request is overtaken by more than this many look-aheads: on an endless stream too, everything has its turn."""


class Group(NamedTuple):
    """What the requests of a group have in common; adapters as (path, weight), sizes in pixels."""

    model: str | None
    adapters: tuple[tuple[str, float], ...]
    height: int | None
    width: int | None
    num_frames: int | None

    def nearness(self, other: "Group") -> int:
        """How little a switch to `other` costs: 3 for nothing at all, 2 a shape, 1 adapters, 0 a model."""
        if self == other:
            return 3
        return 0 if self.model != other.model else 2 if self.adapters == other.adapters else 1


def group_of(planned: PlannedRequest) -> Group:
    """The group of a request."""
    request = planned.request
    adapters = tuple((adapter.path, adapter.weight) for adapter in request.lora or ())
    return Group(request.model, adapters, request.height, request.width, request.num_frames)


def grouped(planned: Iterable[PlannedRequest], look_ahead: int) -> Iterator[PlannedRequest]:
    """All of `planned`, in an order with few switches; requests of one group keep their own. Holds at most `look_ahead` + 1."""
    source = iter(planned)
    held = _Held()
    current: Group | None = None
    while True:
        current = _read_on(source, held, current, look_ahead)
        if current is None:
            return
        yield held.take(current)


def _read_on(source: Iterator[PlannedRequest], held: "_Held", current: Group | None, look_ahead: int) -> Group | None:
    """The group to go on with; None at the end. Reads while nothing of `current` is held and there is room."""
    if current in held:
        return current
    if held.overdue(PATIENCE * look_ahead):
        return held.oldest
    while len(held) <= look_ahead and (request := next(source, None)) is not None:
        held.add(request)
        if current is None or current in held:
            break
    if not len(held):
        return None
    return held.oldest if current is None else held.nearest(current)


class _Held:
    """Requests that wait, by group and by age. A group that has none is forgotten."""

    def __init__(self) -> None:
        self._groups: dict[Group, deque[int]] = {}
        self._requests: OrderedDict[int, PlannedRequest] = OrderedDict()
        self._added = 0

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, group: object) -> bool:
        return group in self._groups

    def add(self, request: PlannedRequest) -> None:
        self._groups.setdefault(group_of(request), deque()).append(self._added)
        self._requests[self._added] = request
        self._added += 1

    def take(self, group: Group) -> PlannedRequest:
        """The oldest of `group`."""
        numbers = self._groups[group]
        number = numbers.popleft()
        if not numbers:
            del self._groups[group]
        return self._requests.pop(number)

    @property
    def oldest(self) -> Group:
        """The group of the request that waits longest."""
        return group_of(next(iter(self._requests.values())))

    def nearest(self, current: Group) -> Group:
        """The group that costs least after `current`; of several, the one whose first request waits longest."""
        return max(self._groups, key=lambda group: (current.nearness(group), -self._groups[group][0]))

    def overdue(self, patience: int) -> bool:
        """True if the oldest has been overtaken by more than `patience` that came after it."""
        overtaken = self._added - next(iter(self._requests), self._added) - len(self._requests)
        return overtaken > patience
