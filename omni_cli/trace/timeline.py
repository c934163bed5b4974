"""Collects the events of a run into its figures and, when asked to, into the spans of a trace file."""

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
    OutputReady,
    RequestFinished,
)
from omni_cli.request import Interval
from omni_cli.trace.chrome import write_chrome_trace
from omni_cli.trace.overlap import Overlap
from omni_cli.trace.spans import Spans

MAX_IN_FLIGHT = 1 << 16
"""Requests between forward and last event that are remembered; the oldest is forgotten first."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a run amounts to. Seconds throughout; shares are 0..1, None where there is nothing to take a share of.

    `wall_seconds` runs from the first model ready (or the first event, without one) to the last event. Forward figures are
    summed over workers. `device_idle` is the time between forwards over the time from a worker's first forward's start to
    its last one's end; `longest_gap` the longest single stretch of it. `output_hidden` is the share of d2h + encode + write
    that lies behind forwards of the worker that computed the request. `bytes_moved` went from device to host, `bytes_copied`
    from host memory to host memory after that.
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
    """An observer of the whole run. Memory is bounded by what is in flight unless `keep_spans` is set.

    With `keep_spans`, about 200 bytes per request are kept until `write_chrome_trace`.
    """

    def __init__(self, *, keep_spans: bool = False) -> None:
        """Start with nothing seen."""
        self._lock = threading.Lock()
        self._workers: dict[int, Overlap] = {}
        self._owners: dict[str, tuple[int, float]] = {}  # request id -> worker, start of its forward
        self._orphans = Overlap()  # outputs of requests whose worker is not known: never hidden
        self._spans = Spans() if keep_spans else None
        self._counts = {"done": 0, "failed": 0, "cancelled": 0}
        self._d2h = self._encode = self._write = 0.0
        self._bytes = 0
        self._copied = 0
        self._first: float | None = None
        self._ready: float | None = None
        self._last = 0.0

    def __call__(self, event: AnyEvent) -> None:
        """Take in one event, from any thread."""
        with self._lock:
            self._first = event.at if self._first is None else min(self._first, event.at)
            self._last = max(self._last, event.at)
            self._take(event)

    def _take(self, event: AnyEvent) -> None:
        match event:
            case ForwardStarted():
                self._own(event.ids, event.worker, event.at)
            case ForwardDone():
                self._own(event.ids, event.worker, event.forward.start)
                self._worker(event.worker).add_forward(event.forward)
                if self._spans is not None:
                    self._spans.forward(event)
            case OutputReady():
                self._d2h += event.d2h.seconds
                self._bytes += event.bytes
                self._copied += event.copied
                self._worker(event.worker).add_output(event.d2h)
                if self._spans is not None:
                    self._spans.d2h(event)
            case EncodeDone():
                self._encoded(event)
            case RequestFinished():
                self._finished(event)
            case ModelReady():
                self._ready = event.at if self._ready is None else min(self._ready, event.at)
                if self._spans is not None:
                    self._spans.name_worker(event)
            case Note() if self._spans is not None:
                self._spans.mark(event.at, event.text)
            case _:
                pass

    def _worker(self, worker: int) -> Overlap:
        return self._workers.setdefault(worker, Overlap())

    def _own(self, ids: tuple[str, ...], worker: int, start: float) -> None:
        for request_id in ids:
            self._owners[request_id] = (worker, start)
        while len(self._owners) > MAX_IN_FLIGHT:
            del self._owners[next(iter(self._owners))]

    def _encoded(self, event: EncodeDone) -> None:
        self._encode += event.encode.seconds
        self._write += event.write.seconds
        owner = self._owners.get(event.id)
        overlap = self._orphans if owner is None else self._worker(owner[0])
        overlap.add_output(event.encode)
        overlap.add_output(event.write)
        if self._spans is not None:
            self._spans.encode(event)

    def _finished(self, event: RequestFinished) -> None:
        result = event.result
        self._counts[result.status] += 1
        owner = self._owners.pop(result.id, None)
        if self._spans is None:
            return
        if owner is not None and result.timings.queued > 0:
            self._spans.queued(result.id, Interval(owner[1] - result.timings.queued, owner[1]))
        if result.status != "done":
            self._spans.mark(event.at, f"{result.id} {result.status}")

    def figures(self) -> Figures:
        """The figures so far; exact once the last event is in."""
        with self._lock:
            workers = self._workers.values()
            start = self._ready if self._ready is not None else self._first
            wall = self._last - start if start is not None else 0.0
            forwards = sum(worker.forwards for worker in workers)
            span = sum(worker.span_seconds for worker in workers)
            output = self._orphans.output_seconds + sum(worker.output_seconds for worker in workers)
            hidden = sum(worker.hidden_seconds for worker in workers)
            return Figures(
                wall_seconds=wall,
                **self._counts,
                requests_per_second=self._counts["done"] / wall if wall > 0 else 0.0,
                forwards=forwards,
                forward_seconds=sum(worker.forward_seconds for worker in workers),
                device_idle=sum(worker.idle_seconds for worker in workers) / span if span > 0 else None,
                longest_gap=max(worker.longest_gap for worker in workers) if forwards else None,
                d2h_seconds=self._d2h,
                encode_seconds=self._encode,
                write_seconds=self._write,
                output_hidden=min(1.0, hidden / output) if output > 0 else None,
                bytes_moved=self._bytes,
                bytes_copied=self._copied,
            )

    def write_chrome_trace(self, path: Path) -> None:
        """Write the spans as Chrome Trace Event JSON; OSError if the file cannot be placed, ValueError without spans."""
        if self._spans is None:
            raise ValueError("this timeline keeps no spans: build it with keep_spans=True")
        with self._lock:
            snapshot = self._spans.snapshot()
        write_chrome_trace(path, snapshot)
