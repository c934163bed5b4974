"""Chrome Trace Event JSON, as chrome://tracing and ui.perfetto.dev open it.

Format: "Trace Event Format" (Google, 2016): an object with `traceEvents`; "M" names processes and threads, "X" is a span
with `ts` and `dur` in microseconds, "b"/"e" an asynchronous span, "i" a moment. Spans of one thread must nest, so spans
that overlap (several writers at once) are spread over lanes, each its own thread. Waits overlap without bound and are
asynchronous spans instead.
"""

import contextlib
import heapq
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from omni_cli.trace.spans import Phase, Snapshot, Span

PARENT = 1
"""Process number of the parent in the trace; worker n is 2 + n."""

_TRACKS = {Phase.FORWARD: "stream", Phase.D2H: "output thread", Phase.ENCODE: "writer"}
_NAMES = {Phase.FORWARD: "forward", Phase.D2H: "d2h", Phase.ENCODE: "encode", Phase.WRITE: "write"}

Row = dict[str, Any]


def write_chrome_trace(path: Path, snapshot: Snapshot) -> None:
    """Write the trace to `path`, complete or not at all (a device or a pipe is written as it is). Raises OSError."""
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as file:
            _write_rows(file, snapshot)
        return
    partial = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with partial.open("xb") as file:
            _write_rows(file, snapshot)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def _write_rows(file: BinaryIO, snapshot: Snapshot) -> None:
    """Stream the rows, one per line, so that the text of the whole trace is never in memory."""
    encode = msgspec.json.Encoder().encode
    file.write(b'{"displayTimeUnit":"ms","traceEvents":[')
    for number, row in enumerate(trace_rows(snapshot)):
        file.write(b",\n" if number else b"\n")
        file.write(encode(row))
    file.write(b"\n]}\n")


def trace_rows(snapshot: Snapshot) -> Iterator[Row]:
    """The events of the trace: names first, then spans by start, then moments. The first span or moment begins at ts 0."""
    order = snapshot.spans.order(snapshot.length)
    starts = [snapshot.spans.row(order[0]).start] if order else []
    zero = min(starts + [mark.at for mark in snapshot.marks], default=0.0)
    tracks = _Tracks(snapshot.workers)
    yield from tracks.name_parent()
    for number in order:
        span = snapshot.spans.row(number)
        if span.phase is Phase.QUEUED:
            yield from _queued(span, number, zero)
        elif span.phase is not Phase.WRITE:  # a WRITE is drawn behind its ENCODE, on the same lane
            yield from _complete(span, snapshot, number, tracks, zero)
    for mark in snapshot.marks:
        yield {"ph": "i", "s": "g", "name": _text(mark.text), "pid": PARENT, "tid": 0, "ts": _us(mark.at - zero)}


def _complete(span: Span, snapshot: Snapshot, number: int, tracks: "_Tracks", zero: float) -> Iterator[Row]:
    parts = [span]
    if span.phase is Phase.ENCODE:
        parts.append(snapshot.spans.row(number + 1))
    pid = PARENT if span.worker < 0 else 2 + span.worker
    tid, names = tracks.lane(pid, span.phase, span.start, parts[-1].end)
    yield from names
    for part in parts:
        args: Row = {"id": _text(part.ids[0])} if len(part.ids) == 1 else {"ids": [_text(name) for name in part.ids]}
        if part.bytes:
            args["bytes"] = part.bytes
        start = _us(part.start - zero)
        name = _NAMES[part.phase]
        yield {
            "ph": "X",
            "name": name,
            "cat": name,
            "pid": pid,
            "tid": tid,
            "ts": start,
            "dur": round(_us(part.end - zero) - start, 3),
            "args": args,
        }


def _queued(span: Span, number: int, zero: float) -> Iterator[Row]:
    common: Row = {"name": "queued", "cat": "queue", "id": number, "pid": PARENT, "tid": 0}
    yield {**common, "ph": "b", "ts": _us(span.start - zero), "args": {"id": _text(span.ids[0])}}
    yield {**common, "ph": "e", "ts": _us(span.end - zero)}


class _Tracks:
    """Gives each span a lane of its track that is free, the one with the lowest number first."""

    def __init__(self, workers: dict[int, str]) -> None:
        self._workers = workers
        self._busy: dict[tuple[int, Phase], list[tuple[float, int]]] = {}  # heap of (end, lane)
        self._free: dict[tuple[int, Phase], list[int]] = {}  # heap of lanes
        self._tids: dict[tuple[int, Phase, int], int] = {}
        self._named: set[int] = set()

    def name_parent(self) -> Iterator[Row]:
        """Names of the parent process and of its queue."""
        yield from self._name_process(PARENT)
        yield _metadata("thread_name", PARENT, 0, name="queue")

    def lane(self, pid: int, phase: Phase, start: float, end: float) -> tuple[int, list[Row]]:
        """Thread number for a span, and the names to write if the thread or its process is new."""
        busy = self._busy.setdefault((pid, phase), [])
        free = self._free.setdefault((pid, phase), [])
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lane))
        key = (pid, phase, lane)
        if key in self._tids:
            return self._tids[key], []
        tid = self._tids[key] = len(self._tids) + 1
        title = _TRACKS[phase] if not lane and phase is not Phase.ENCODE else f"{_TRACKS[phase]} {lane + 1}"
        return tid, [
            *self._name_process(pid),
            _metadata("thread_name", pid, tid, name=title),
            _metadata("thread_sort_index", pid, tid, sort_index=100_000 * phase + lane),
        ]

    def _name_process(self, pid: int) -> Iterator[Row]:
        if pid in self._named:
            return
        self._named.add(pid)
        worker = pid - 2
        title = "omni-gen" if pid == PARENT else f"worker {worker}"
        if worker in self._workers:
            title += f" · {self._workers[worker]}"
        yield _metadata("process_name", pid, 0, name=_text(title))
        yield _metadata("process_sort_index", pid, 0, sort_index=100_000 if pid == PARENT else worker)


def _metadata(kind: str, pid: int, tid: int, **args: str | int) -> Row:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _text(text: str) -> str:
    """Text that can be written as UTF-8: a lone surrogate (a path whose bytes are not UTF-8) becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")
