"""What each worker and each request in flight is at, kept small: the part of the state that the lanes are drawn from."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from omni_cli.events import EncodeDone, ForwardDone, ForwardStarted, ModelLoading, OutputReady, RequestFinished
from omni_cli.request import Interval

LANE_BLOCKS = 160
"""Blocks remembered per lane: more than the cells of the widest strip that is drawn."""

MAX_IN_FLIGHT = 1 << 14
FAILED = -1
"""Tone of a forward that came to nothing; all others count up with the worker's forwards."""


class Phase(IntEnum):
    """Where a request in flight is. HELD: in host memory, no writer has begun."""

    FORWARD = 0
    D2H = 1
    HELD = 2
    ENCODE = 3


class Block(NamedTuple):
    """A stretch of work on a lane; `tone` is the same for all work of one forward pass."""

    start: float
    end: float
    tone: int


@dataclass(slots=True)
class Flight:
    """A request between the start of its forward and its last event."""

    id: str
    worker: int
    tone: int
    phase: Phase
    since: float


@dataclass(slots=True)
class Worker:
    """A worker's lanes of finished blocks, and what it is at besides the requests in flight."""

    number: int
    title: str = ""
    loading: str | None = None
    loading_since: float = 0.0
    forwards: int = 0
    step: int = 0
    total: int = 0
    typical: float = 0.0  # running mean of forward seconds
    lanes: dict[Phase, deque[Block]] = field(
        default_factory=lambda: {phase: deque(maxlen=LANE_BLOCKS) for phase in (Phase.FORWARD, Phase.D2H, Phase.ENCODE)}
    )
    last: dict[Phase, str] = field(default_factory=dict)

    def add(self, phase: Phase, interval: Interval, tone: int, request_id: str) -> None:
        """Put a finished block on a lane."""
        self.lanes[phase].append(Block(interval.start, interval.end, tone))
        self.last[phase] = request_id


class Workers:
    """Workers by number and flights by request id; not locked, the board's lock holds for it."""

    def __init__(self) -> None:
        """Start with none."""
        self.by_number: dict[int, Worker] = {}
        self.flights: dict[str, Flight] = {}

    def get(self, number: int) -> Worker:
        """The worker, made when first heard of."""
        return self.by_number.setdefault(number, Worker(number))

    def load(self, event: ModelLoading) -> None:
        """The worker (re)starts: what it was computing is over."""
        worker = self.get(event.worker)
        if worker.loading is None:
            worker.loading_since = event.at
            gone = [f.id for f in self.flights.values() if f.worker == event.worker and f.phase is Phase.FORWARD]
            for request_id in gone:
                del self.flights[request_id]
        worker.loading = event.what

    def start(self, event: ForwardStarted) -> None:
        """These requests are in their forward now."""
        worker = self.get(event.worker)
        worker.forwards += 1
        worker.step = 0  # the total stays: the next forward most likely takes as many steps
        worker.loading = None
        for request_id in event.ids:
            self.flights.pop(request_id, None)  # a retry counts as new, and moves to the end
            self.flights[request_id] = Flight(request_id, event.worker, worker.forwards, Phase.FORWARD, event.at)
        while len(self.flights) > MAX_IN_FLIGHT:
            del self.flights[next(iter(self.flights))]

    def computed(self, event: ForwardDone) -> None:
        """The forward is over, its outputs wait for their D2H."""
        worker = self.get(event.worker)
        tone = worker.forwards
        for request_id in event.ids:
            flight = self._advance(request_id, Phase.D2H, event.forward.end)
            tone = flight.tone if flight is not None else tone
        worker.add(Phase.FORWARD, event.forward, tone, event.ids[0] if event.ids else "")
        length = event.forward.seconds
        worker.typical = length if not worker.typical else 0.8 * worker.typical + 0.2 * length

    def copied(self, event: OutputReady) -> None:
        """The output is in host memory."""
        flight = self._advance(event.id, Phase.HELD, event.at)
        worker = self.get(event.worker)
        worker.add(Phase.D2H, event.d2h, flight.tone if flight is not None else worker.forwards, event.id)

    def encoding(self, request_id: str, at: float) -> None:
        """A writer has begun."""
        self._advance(request_id, Phase.ENCODE, at)

    def encoded(self, event: EncodeDone) -> None:
        """Files are in place; the lane shows encode and write as one."""
        flight = self.flights.get(event.id)
        if flight is not None:
            whole = Interval(event.encode.start, max(event.encode.end, event.write.end))
            self.get(flight.worker).add(Phase.ENCODE, whole, flight.tone, event.id)
            del self.flights[event.id]

    def finished(self, event: RequestFinished) -> None:
        """The request is over, however it went."""
        flight = self.flights.pop(event.result.id, None)
        if flight is None or event.result.status == "done" or flight.phase is not Phase.FORWARD:
            return
        lane = self.get(flight.worker).lanes[Phase.FORWARD]
        if not lane or (lane[-1].tone, lane[-1].start) != (FAILED, flight.since):  # once for a batch
            lane.append(Block(flight.since, event.at, FAILED))

    def of(self, number: int) -> Iterable[Flight]:
        """The worker's requests in flight, the oldest first."""
        return [flight for flight in self.flights.values() if flight.worker == number]

    def _advance(self, request_id: str, phase: Phase, at: float) -> Flight | None:
        """Move on to `phase`, never back: events of one request may come from different threads."""
        flight = self.flights.get(request_id)
        if flight is not None and phase > flight.phase:
            flight.phase, flight.since = phase, at
        return flight
