"""An observer that turns the events of a run into figures and, on request, into the spans of a trace file."""

import threading
from pathlib import Path

import msgspec

from omni_cli.events import (
    AnyEvent,
    EncodeDone,
    ForwardDone,
    ForwardStarted,
    ModelReady,
    Note,
    OutputArrived,
    RequestFinished,
    RunStopping,
)
from omni_cli.request import Interval
from omni_cli.trace.chrome import write_chrome_trace
from omni_cli.trace.overlap import Overlap
from omni_cli.trace.spans import Spans

MAX_IN_FLIGHT = 1 << 16
"""Requests between forward and last event that are kept; the oldest is dropped first."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run. Times are seconds; shares are 0..1, None where there is nothing to take a share of.

    `wall_seconds` is the time from the first ready model (or the first event, without one) to the last event. Forward
    figures are sums over workers. `device_idle` is the time between forwards, over the time from a worker's first
    forward to its last; `longest_gap` is the longest single gap. `output_hidden` is the share of d2h + encode + write
    that lies behind forwards of the worker that computed the request. `bytes_moved` went from device to host,
    `bytes_copied` from host memory to host memory after that.
    """

    wall_seconds: float = 0.0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    requests_per_second: float = 0.0
    forwards: int = 0
    forward_seconds: float = 0.0
    device_idle: float | None = None
    longest_gap: float | None = None
    d2h_seconds: float = 0.0
    encode_seconds: float = 0.0
    write_seconds: float = 0.0
    output_hidden: float | None = None
    bytes_moved: int = 0
    bytes_copied: int = 0


class Timeline:
    """An observer of a whole run, callable from any thread.

    Memory is bounded by the requests in flight. With `keep_spans`, about 200 bytes per request are kept for
    `write_chrome_trace`.
    """

    def __init__(self, *, keep_spans: bool = False) -> None:
        """Start without events."""
        self._lock = threading.Lock()
        self._overlaps: dict[int, Overlap] = {}
        self._computed_by: dict[str, tuple[int, float]] = {}  # request id -> worker, start of its forward
        self._unattributed = Overlap()  # outputs of requests whose worker is unknown: never hidden
        self._spans = Spans() if keep_spans else None
        self._counts = {"done": 0, "failed": 0, "cancelled": 0}
        self._d2h_seconds = self._encode_seconds = self._write_seconds = 0.0
        self._bytes_moved = self._bytes_copied = 0
        self._first_at: float | None = None
        self._ready_at: float | None = None
        self._last_at = 0.0

    def __call__(self, event: AnyEvent) -> None:
        """Record an event, from any thread."""
        with self._lock:
            self._first_at = event.at if self._first_at is None else min(self._first_at, event.at)
            self._last_at = max(self._last_at, event.at)
            self._record(event)

    def _record(self, event: AnyEvent) -> None:
        match event:
            case ForwardStarted():
                self._attribute(event.ids, event.worker, event.at)
            case ForwardDone():
                self._attribute(event.ids, event.worker, event.forward.start)
                self._overlap(event.worker).add_forward(event.forward)
                if self._spans is not None:
                    self._spans.add_forward(event)
            case OutputArrived():
                self._d2h_seconds += event.d2h.seconds
                self._bytes_moved += event.bytes
                self._bytes_copied += event.copied
                self._overlap(event.worker).add_output(event.d2h)
                if self._spans is not None:
                    self._spans.add_d2h(event)
            case EncodeDone():
                self._encode_done(event)
            case RequestFinished():
                self._request_finished(event)
            case ModelReady():
                self._ready_at = event.at if self._ready_at is None else min(self._ready_at, event.at)
                if self._spans is not None:
                    self._spans.name_worker(event)
            case Note() if self._spans is not None:
                self._spans.add_mark(event.at, event.text)
            case RunStopping() if self._spans is not None:
                self._spans.add_mark(event.at, "stopping")
            case _:
                pass

    def _overlap(self, worker: int) -> Overlap:
        return self._overlaps.setdefault(worker, Overlap())

    def _attribute(self, ids: tuple[str, ...], worker: int, start: float) -> None:
        for request_id in ids:
            self._computed_by[request_id] = (worker, start)
        while len(self._computed_by) > MAX_IN_FLIGHT:
            del self._computed_by[next(iter(self._computed_by))]

    def _encode_done(self, event: EncodeDone) -> None:
        self._encode_seconds += event.encode.seconds
        self._write_seconds += event.write.seconds
        computed_by = self._computed_by.get(event.id)
        overlap = self._unattributed if computed_by is None else self._overlap(computed_by[0])
        overlap.add_output(event.encode)
        overlap.add_output(event.write)
        if self._spans is not None:
            self._spans.add_encode(event)

    def _request_finished(self, event: RequestFinished) -> None:
        result = event.result
        self._counts[result.status] += 1
        computed_by = self._computed_by.pop(result.id, None)
        if self._spans is None:
            return
        if computed_by is not None and result.timings.queued > 0:
            _, start = computed_by
            self._spans.add_queued(result.id, Interval(start - result.timings.queued, start))
        if result.status != "done":
            self._spans.add_mark(event.at, f"{result.id} {result.status}")

    def figures(self) -> Figures:
        """Return the figures so far; they are exact after the last event."""
        with self._lock:
            overlaps = self._overlaps.values()
            start = self._ready_at if self._ready_at is not None else self._first_at
            wall = self._last_at - start if start is not None else 0.0
            forwards = sum(overlap.forwards for overlap in overlaps)
            span = sum(overlap.span_seconds for overlap in overlaps)
            output = self._unattributed.output_seconds + sum(overlap.output_seconds for overlap in overlaps)
            hidden = sum(overlap.hidden_seconds for overlap in overlaps)
            return Figures(
                wall_seconds=wall,
                **self._counts,
                requests_per_second=self._counts["done"] / wall if wall > 0 else 0.0,
                forwards=forwards,
                forward_seconds=sum(overlap.forward_seconds for overlap in overlaps),
                device_idle=sum(overlap.idle_seconds for overlap in overlaps) / span if span > 0 else None,
                longest_gap=max(overlap.longest_gap for overlap in overlaps) if forwards else None,
                d2h_seconds=self._d2h_seconds,
                encode_seconds=self._encode_seconds,
                write_seconds=self._write_seconds,
                output_hidden=min(1.0, hidden / output) if output > 0 else None,
                bytes_moved=self._bytes_moved,
                bytes_copied=self._bytes_copied,
            )

    def write_chrome_trace(self, path: Path) -> None:
        """Write the spans as a Chrome trace. Raises OSError, and ValueError if the timeline keeps no spans."""
        if self._spans is None:
            raise ValueError("the timeline keeps no spans; create it with keep_spans=True")
        with self._lock:
            snapshot = self._spans.snapshot()
        write_chrome_trace(path, snapshot)
