"""Chrome trace files, for chrome://tracing and ui.perfetto.dev.

The format is the "Trace Event Format" (Google, 2016): an object with `traceEvents`, in which "M" names processes and
threads, "X" is a span with `ts` and `dur` in microseconds, "b" and "e" are an asynchronous span, "i" is an instant.
Spans of one thread must nest, so overlapping spans of a track (several writers) get threads of their own. Waits overlap
without limit and are asynchronous spans.
"""

import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from omni_cli.storage.atomic import replace_file
from omni_cli.text import encodable
from omni_cli.trace.spans import Phase, Span, SpansSnapshot

PARENT = 1
"""Process id of the parent in the trace; worker n has 2 + n."""

_TRACKS = {Phase.FORWARD: "stream", Phase.D2H: "output thread", Phase.ENCODE: "writer"}
_NAMES = {Phase.FORWARD: "forward", Phase.D2H: "d2h", Phase.ENCODE: "encode", Phase.WRITE: "write"}

Row = dict[str, Any]


def write_chrome_trace(path: Path, snapshot: SpansSnapshot) -> None:
    """Write the trace to `path`, atomically unless it is a device or a pipe. Raises OSError."""
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as file:
            _write_rows(file, snapshot)
        return
    with replace_file(path) as file:
        _write_rows(file, snapshot)


def _write_rows(file: BinaryIO, snapshot: SpansSnapshot) -> None:
    """Write one row per line, so that the text of the whole trace is never in memory."""
    encode = msgspec.json.Encoder().encode
    file.write(b'{"displayTimeUnit":"ms","traceEvents":[')
    for number, row in enumerate(trace_rows(snapshot)):
        file.write(b",\n" if number else b"\n")
        file.write(encode(row))
    file.write(b"\n]}\n")


def trace_rows(snapshot: SpansSnapshot) -> Iterator[Row]:
    """Yield the rows of the trace: names first, then spans by start, then instants. The earliest is at ts 0."""
    order = snapshot.spans.by_start(snapshot.length)
    starts = [snapshot.spans.span(order[0]).start] if order else []
    zero = min(starts + [mark.at for mark in snapshot.marks], default=0.0)
    threads = _Threads(snapshot.workers)
    yield from threads.name_parent()
    for number in order:
        span = snapshot.spans.span(number)
        if span.phase is Phase.QUEUED:
            yield from _queued_rows(span, number, zero)
        elif span.phase is not Phase.WRITE:  # a WRITE follows its ENCODE, on the same thread
            yield from _complete_rows(span, snapshot, number, threads, zero)
    for mark in snapshot.marks:
        yield {"ph": "i", "s": "g", "name": encodable(mark.text), "pid": PARENT, "tid": 0, "ts": _us(mark.at - zero)}


def _complete_rows(span: Span, snapshot: SpansSnapshot, number: int, threads: "_Threads", zero: float) -> Iterator[Row]:
    parts = [span]
    if span.phase is Phase.ENCODE:
        parts.append(snapshot.spans.span(number + 1))
    pid = PARENT if span.worker < 0 else 2 + span.worker
    tid, names = threads.assign(pid, span.phase, span.start, parts[-1].end)
    yield from names
    for part in parts:
        args: Row = (
            {"id": encodable(part.ids[0])} if len(part.ids) == 1 else {"ids": [encodable(name) for name in part.ids]}
        )
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


def _queued_rows(span: Span, number: int, zero: float) -> Iterator[Row]:
    common: Row = {"name": "queued", "cat": "queue", "id": number, "pid": PARENT, "tid": 0}
    yield {**common, "ph": "b", "ts": _us(span.start - zero), "args": {"id": encodable(span.ids[0])}}
    yield {**common, "ph": "e", "ts": _us(span.end - zero)}


class _Threads:
    """The threads of the trace; a span gets the first free one of its track."""

    def __init__(self, workers: dict[int, str]) -> None:
        self._workers = workers
        self._busy: dict[tuple[int, Phase], list[tuple[float, int]]] = {}  # heap of (end, number)
        self._free: dict[tuple[int, Phase], list[int]] = {}  # heap of numbers
        self._tids: dict[tuple[int, Phase, int], int] = {}
        self._named: set[int] = set()

    def name_parent(self) -> Iterator[Row]:
        """Yield the names of the parent process and of its queue."""
        yield from self._name_process(PARENT)
        yield _metadata("thread_name", PARENT, 0, name="queue")

    def assign(self, pid: int, phase: Phase, start: float, end: float) -> tuple[int, list[Row]]:
        """Return the thread id of a span, and the naming rows if the thread or its process is new."""
        busy = self._busy.setdefault((pid, phase), [])
        free = self._free.setdefault((pid, phase), [])
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        number = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, number))
        key = (pid, phase, number)
        if key in self._tids:
            return self._tids[key], []
        tid = self._tids[key] = len(self._tids) + 1
        title = _TRACKS[phase] if not number and phase is not Phase.ENCODE else f"{_TRACKS[phase]} {number + 1}"
        return tid, [
            *self._name_process(pid),
            _metadata("thread_name", pid, tid, name=title),
            _metadata("thread_sort_index", pid, tid, sort_index=100_000 * phase + number),
        ]

    def _name_process(self, pid: int) -> Iterator[Row]:
        if pid in self._named:
            return
        self._named.add(pid)
        worker = pid - 2
        title = "omni-gen" if pid == PARENT else f"worker {worker}"
        if worker in self._workers:
            title += f" · {self._workers[worker]}"
        yield _metadata("process_name", pid, 0, name=encodable(title))
        yield _metadata("process_sort_index", pid, 0, sort_index=100_000 if pid == PARENT else worker)


def _metadata(kind: str, pid: int, tid: int, **args: str | int) -> Row:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)
