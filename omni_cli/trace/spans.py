"""The spans of a run in columns: about 40 bytes per span beside the ids, so that a million requests stay in memory."""

from array import array
from dataclasses import dataclass
from enum import IntEnum

from omni_cli.events import EncodeDone, ForwardDone, ModelReady, OutputReady
from omni_cli.request import Interval

MAX_MARKS = 10_000
"""Notes and failures that are kept for the trace."""


class Phase(IntEnum):
    """What a span shows. `ENCODE` is always followed by the `WRITE` of the same request."""

    QUEUED = 0
    FORWARD = 1
    D2H = 2
    ENCODE = 3
    WRITE = 4


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of work; `worker` is -1 in the parent, `bytes` 0 where nothing was moved."""

    phase: Phase
    worker: int
    ids: tuple[str, ...]
    start: float
    end: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment worth seeing: a note, or a request that did not get done."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The first `length` spans, the names of the workers and the marks; later events do not change it."""

    spans: "Spans"
    length: int
    workers: dict[int, str]
    marks: tuple[Mark, ...]


class Spans:
    """Columns of spans; appended to by one thread at a time, rows never change."""

    def __init__(self) -> None:
        """Start empty."""
        self._phase = array("B")
        self._worker = array("i")
        self._start = array("d")
        self._end = array("d")
        self._bytes = array("q")
        self._ids: list[str | tuple[str, ...]] = []
        self._workers: dict[int, str] = {}
        self._marks: list[Mark] = []

    def _add(self, phase: Phase, worker: int, ids: str | tuple[str, ...], interval: Interval, moved: int = 0) -> None:
        self._phase.append(phase)
        self._worker.append(worker)
        self._start.append(interval.start)
        self._end.append(max(interval.start, interval.end))
        self._bytes.append(moved)
        self._ids.append(ids)

    def queued(self, request_id: str, interval: Interval) -> None:
        """The wait of a request for its forward."""
        self._add(Phase.QUEUED, -1, request_id, interval)

    def forward(self, event: ForwardDone) -> None:
        """A forward pass."""
        self._add(Phase.FORWARD, event.worker, event.ids if len(event.ids) != 1 else event.ids[0], event.forward)

    def d2h(self, event: OutputReady) -> None:
        """A copy to the host."""
        self._add(Phase.D2H, event.worker, event.id, event.d2h, event.bytes)

    def encode(self, event: EncodeDone) -> None:
        """The encoding and the write of a request: two rows behind each other."""
        self._add(Phase.ENCODE, -1, event.id, event.encode)
        self._add(Phase.WRITE, -1, event.id, event.write)

    def name_worker(self, event: ModelReady) -> None:
        """What the worker runs."""
        self._workers[event.worker] = f"{event.pipeline} · {event.device} · {event.dtype}"

    def mark(self, at: float, text: str) -> None:
        """A moment; beyond `MAX_MARKS` they are left out."""
        if len(self._marks) < MAX_MARKS:
            self._marks.append(Mark(at, text))

    def snapshot(self) -> Snapshot:
        """What is known now."""
        return Snapshot(self, len(self._ids), dict(self._workers), tuple(self._marks))

    def row(self, row: int) -> Span:
        """Span number `row`."""
        ids = self._ids[row]
        return Span(
            Phase(self._phase[row]),
            self._worker[row],
            (ids,) if isinstance(ids, str) else ids,
            self._start[row],
            self._end[row],
            self._bytes[row],
        )

    def order(self, length: int) -> list[int]:
        """Numbers of the first `length` spans by start; equal starts keep their order, so a WRITE stays behind its ENCODE."""
        return sorted(range(length), key=self._start.__getitem__)
