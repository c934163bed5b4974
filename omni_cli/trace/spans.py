"""The spans of a run in columns: about 40 bytes per span besides the ids, so that a million requests fit in memory."""

from array import array
from dataclasses import dataclass
from enum import IntEnum

from omni_cli.events import EncodeDone, ForwardDone, ModelReady, OutputArrived
from omni_cli.request import Interval

MAX_MARKS = 10_000
"""Notes and failures that are kept for the trace."""


class Phase(IntEnum):
    """The phase of a span. An `ENCODE` is always followed by the `WRITE` of the same request."""

    QUEUED = 0
    FORWARD = 1
    D2H = 2
    ENCODE = 3
    WRITE = 4


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of work, in seconds; `worker` is -1 in the parent, `bytes` 0 where nothing was moved."""

    phase: Phase
    worker: int
    ids: tuple[str, ...]
    start: float
    end: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Mark:
    """An instant in the trace: a note, or a request that failed or was cancelled."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class SpansSnapshot:
    """The first `length` spans, the names of workers, and the marks; later events do not change it."""

    spans: "Spans"
    length: int
    workers: dict[int, str]
    marks: tuple[Mark, ...]


class Spans:
    """Columns of spans. One thread appends at a time; rows never change."""

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

    def add_queued(self, request_id: str, interval: Interval) -> None:
        """Add the wait of a request for its forward."""
        self._add(Phase.QUEUED, -1, request_id, interval)

    def add_forward(self, event: ForwardDone) -> None:
        """Add a forward pass."""
        self._add(Phase.FORWARD, event.worker, event.ids if len(event.ids) != 1 else event.ids[0], event.forward)

    def add_d2h(self, event: OutputArrived) -> None:
        """Add a copy to the host."""
        self._add(Phase.D2H, event.worker, event.id, event.d2h, event.bytes)

    def add_encode(self, event: EncodeDone) -> None:
        """Add the encoding and the write of a request as two successive rows."""
        self._add(Phase.ENCODE, -1, event.id, event.encode)
        self._add(Phase.WRITE, -1, event.id, event.write)

    def name_worker(self, event: ModelReady) -> None:
        """Set the worker's name: its pipeline, device and dtype."""
        self._workers[event.worker] = f"{event.pipeline} · {event.device} · {event.dtype}"

    def add_mark(self, at: float, text: str) -> None:
        """Add an instant; beyond `MAX_MARKS` it is dropped."""
        if len(self._marks) < MAX_MARKS:
            self._marks.append(Mark(at, text))

    def snapshot(self) -> SpansSnapshot:
        """Return the present spans, names and marks."""
        return SpansSnapshot(self, len(self._ids), dict(self._workers), tuple(self._marks))

    def span(self, number: int) -> Span:
        """Return the span with this number."""
        ids = self._ids[number]
        return Span(
            Phase(self._phase[number]),
            self._worker[number],
            (ids,) if isinstance(ids, str) else ids,
            self._start[number],
            self._end[number],
            self._bytes[number],
        )

    def by_start(self, length: int) -> list[int]:
        """Return the numbers of the first `length` spans, sorted by start; a WRITE stays behind its ENCODE."""
        return sorted(range(length), key=self._start.__getitem__)
