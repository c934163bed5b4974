"""The workers and the requests in flight: the part of a run's state from which tracks are drawn, in bounded memory."""

from collections import deque
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple, Self

from omni_cli.events import EncodeDone, ForwardDone, ForwardStarted, ModelLoading, OutputArrived, RequestFinished
from omni_cli.request import Interval

TRACK_BLOCKS = 160
"""Blocks kept per track: more than the cells of the widest track that is drawn."""

MAX_IN_FLIGHT = 1 << 14
FAILED = -1
"""Forward number of the blocks of a failed forward; others count up from 1."""

MEAN_WEIGHT = 0.2
"""Weight of the latest forward in the running mean of forward times."""


class WorkerPhase(IntEnum):
    """The phase of a request in flight. OUTPUT_WAITING: in host memory, its encoding has not started."""

    FORWARD = 0
    D2H = 1
    OUTPUT_WAITING = 2
    ENCODE = 3


class Block(NamedTuple):
    """A stretch of work on a track, in seconds, and the number of the worker's forward that it belongs to."""

    start: float
    end: float
    forward: int


@dataclass(slots=True)
class RequestInFlight:
    """A request between the start of its forward and its last event; in its phase since `since`."""

    id: str
    worker: int
    forward: int
    phase: WorkerPhase
    since: float


@dataclass(slots=True)
class WorkerState:
    """A worker's finished blocks and its present activity; `loading` is None once the model is ready.

    `forward_seconds` is the running mean of forward times, `last_ids` the latest finished request per phase.
    """

    number: int
    device: str = ""
    loading: str | None = None
    loading_since: float = 0.0
    forwards: int = 0
    step: int = 0
    total_steps: int = 0
    forward_seconds: float = 0.0
    tracks: dict[WorkerPhase, deque[Block]] = field(
        default_factory=lambda: {
            phase: deque(maxlen=TRACK_BLOCKS) for phase in (WorkerPhase.FORWARD, WorkerPhase.D2H, WorkerPhase.ENCODE)
        }
    )
    last_ids: dict[WorkerPhase, str] = field(default_factory=dict)

    def add_block(self, phase: WorkerPhase, interval: Interval, forward: int, request_id: str) -> None:
        """Append a finished block to the track of `phase`."""
        self.tracks[phase].append(Block(interval.start, interval.end, forward))
        self.last_ids[phase] = request_id

    def copy(self) -> Self:
        """Return a copy that later events do not change."""
        tracks = {phase: blocks.copy() for phase, blocks in self.tracks.items()}
        return replace(self, tracks=tracks, last_ids=self.last_ids.copy())


class Workers:
    """Workers by number and requests in flight by id. Not thread-safe: guarded by the lock of RunState."""

    def __init__(self) -> None:
        """Start without workers."""
        self._states: dict[int, WorkerState] = {}
        self._in_flight: dict[str, RequestInFlight] = {}

    def get(self, number: int) -> WorkerState:
        """Return the worker, created on first use."""
        return self._states.setdefault(number, WorkerState(number))

    def copy_states(self) -> tuple[WorkerState, ...]:
        """Return copies of the workers' states, sorted by number."""
        return tuple(state.copy() for _, state in sorted(self._states.items()))

    def copy_in_flight(self) -> tuple[RequestInFlight, ...]:
        """Return copies of the requests in flight, the oldest forward first."""
        return tuple(replace(request) for request in self._in_flight.values())

    def model_loading(self, event: ModelLoading) -> None:
        """Record that the worker starts or restarts; its running forward is lost."""
        worker = self.get(event.worker)
        if worker.loading is None:
            worker.loading_since = event.at
            for request in list(self._in_flight.values()):
                if request.worker == event.worker and request.phase is WorkerPhase.FORWARD:
                    del self._in_flight[request.id]
        worker.loading = event.what

    def forward_started(self, event: ForwardStarted) -> None:
        """Record that the event's requests are in their forward."""
        worker = self.get(event.worker)
        worker.forwards += 1
        worker.step = 0  # the total stays: the next forward most likely has as many steps
        worker.loading = None
        for request_id in event.ids:
            self._in_flight.pop(request_id, None)  # a retry is a new entry at the end
            self._in_flight[request_id] = RequestInFlight(
                request_id, event.worker, worker.forwards, WorkerPhase.FORWARD, event.at
            )
        while len(self._in_flight) > MAX_IN_FLIGHT:
            del self._in_flight[next(iter(self._in_flight))]

    def forward_done(self, event: ForwardDone) -> None:
        """Record the end of a forward; its outputs wait for their D2H copy."""
        worker = self.get(event.worker)
        forward = worker.forwards
        for request_id in event.ids:
            request = self._advance(request_id, WorkerPhase.D2H, event.forward.end)
            forward = request.forward if request is not None else forward
        worker.add_block(WorkerPhase.FORWARD, event.forward, forward, event.ids[0] if event.ids else "")
        seconds, mean = event.forward.seconds, worker.forward_seconds
        worker.forward_seconds = seconds if not mean else (1 - MEAN_WEIGHT) * mean + MEAN_WEIGHT * seconds

    def output_arrived(self, event: OutputArrived) -> None:
        """Record that the output is in host memory."""
        request = self._advance(event.id, WorkerPhase.OUTPUT_WAITING, event.at)
        worker = self.get(event.worker)
        forward = request.forward if request is not None else worker.forwards
        worker.add_block(WorkerPhase.D2H, event.d2h, forward, event.id)

    def encode_started(self, request_id: str, at: float) -> None:
        """Record that encoding started."""
        self._advance(request_id, WorkerPhase.ENCODE, at)

    def encode_done(self, event: EncodeDone) -> None:
        """Record that files are in place; the track shows encode and write as one block."""
        request = self._in_flight.pop(event.id, None)
        if request is not None:
            whole = Interval(event.encode.start, max(event.encode.end, event.write.end))
            self.get(request.worker).add_block(WorkerPhase.ENCODE, whole, request.forward, event.id)

    def request_finished(self, event: RequestFinished) -> None:
        """Record the end of the request; a forward that failed becomes a failed block."""
        request = self._in_flight.pop(event.result.id, None)
        if request is None or event.result.status == "done" or request.phase is not WorkerPhase.FORWARD:
            return
        track = self.get(request.worker).tracks[WorkerPhase.FORWARD]
        if not track or (track[-1].forward, track[-1].start) != (FAILED, request.since):  # once per batch
            track.append(Block(request.since, event.at, FAILED))

    def _advance(self, request_id: str, phase: WorkerPhase, at: float) -> RequestInFlight | None:
        """Move the request on to `phase`, never back: events of one request may come from different threads."""
        request = self._in_flight.get(request_id)
        if request is not None and phase > request.phase:
            request.phase, request.since = phase, at
        return request
