"""The state of a run as a view needs it: observers update it under a lock, the drawing thread takes a copy."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from omni_cli.events import (
    AnyEvent,
    EncodeDone,
    EncodeStarted,
    ForwardDone,
    ForwardStarted,
    ForwardStep,
    ModelLoading,
    ModelReady,
    ModelSwitched,
    Note,
    OutputReady,
    PreviewWritten,
    RequestFinished,
    RunFinished,
    RunStarted,
)
from omni_cli.trace import Timeline
from omni_cli.view import text
from omni_cli.view.snapshot import Failure, Line, LineKind, Snapshot, WorkerNow
from omni_cli.view.workers import Workers

MAX_FAILURES = 10
"""Failures that the summary spells out."""

MAX_FAILURE_LINES = 100
"""Failures that get a line of their own while the run goes."""

MAX_LINES = 1000
RECENT = 200
"""Finished requests that the rate is taken over."""


class Board:
    """An observer that keeps what a view shows; memory does not grow with the number of requests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start before the run. `clock` is the clock of the events."""
        self.clock = clock
        self._lock = threading.Lock()
        self._timeline = Timeline()
        self._workers = Workers()
        self._run: RunStarted | None = None
        self._ended: RunFinished | None = None
        self._ready_at: float | None = None
        self._finishes: deque[float] = deque(maxlen=RECENT)
        self._failures: list[Failure] = []
        self._failed = 0
        self._lines: deque[Line] = deque()
        self._lost_lines = 0
        self._previewed = False

    def __call__(self, event: AnyEvent) -> None:
        """Take in one event, from any thread."""
        self._timeline(event)
        with self._lock:
            self._take(event)

    def _take(self, event: AnyEvent) -> None:
        match event:
            case RunStarted():
                self._run = event
            case ModelLoading():
                self._workers.load(event)
                self._say("loading", f"worker {event.worker}: loading {event.what}")
            case ModelReady():
                self._ready(event)
            case ModelSwitched():
                self._say("info", f"switching to model {event.model}")
            case ForwardStarted():
                self._workers.start(event)
            case ForwardStep():
                worker = self._workers.get(event.worker)
                worker.step, worker.total = event.step, event.total
            case PreviewWritten():
                self._preview(event)
            case ForwardDone():
                self._workers.computed(event)
            case OutputReady():
                self._workers.copied(event)
            case EncodeStarted():
                self._workers.encoding(event.id, event.at)
            case EncodeDone():
                self._workers.encoded(event)
            case RequestFinished():
                self._finish(event)
            case Note():
                self._say(
                    "error" if event.level == "error" else "warning" if "warn" in event.level else "info", event.text
                )
            case RunFinished():
                self._ended = self._ended or event

    def _ready(self, event: ModelReady) -> None:
        worker = self._workers.get(event.worker)
        worker.loading, worker.title = None, event.device
        self._ready_at = event.at if self._ready_at is None else self._ready_at
        what = f"{event.pipeline} on {event.device}, {event.dtype}"
        self._say("ready", f"worker {event.worker}: {what}, ready after {text.seconds(event.seconds)}")

    def _preview(self, event: PreviewWritten) -> None:
        """Where to look, once: the others lie beside their outputs as well."""
        if not self._previewed:
            self._previewed = True
            place = f"{self._run.output_dir}/{event.path}" if self._run is not None else event.path
            self._say("info", f"previews beside the outputs while these are in the making: {place}")

    def _finish(self, event: RequestFinished) -> None:
        result = event.result
        self._workers.finished(event)
        self._finishes.append(event.at)
        if result.status != "failed":
            return
        self._failed += 1
        error = result.error
        failure = Failure(result.id, error.kind if error else "failed", error.message if error else "")
        if len(self._failures) < MAX_FAILURES:
            self._failures.append(failure)
        if self._failed <= MAX_FAILURE_LINES:
            self._say("error", f"{failure.id}: {failure.kind}: {failure.message}")
        if self._failed == MAX_FAILURE_LINES:
            self._say("warning", "further failures are only counted here; manifest.jsonl has them all")

    def _say(self, kind: LineKind, line: str) -> None:
        if len(self._lines) >= MAX_LINES:
            self._lines.popleft()
            self._lost_lines += 1
        self._lines.append(Line(kind, text.printable(line[:4000]).strip()))

    def take_lines(self) -> list[Line]:
        """The lines said since the last call; if nobody could show them for long, the oldest are left out and counted."""
        with self._lock:
            lines, lost = list(self._lines), self._lost_lines
            self._lines.clear()
            self._lost_lines = 0
        return [Line("warning", f"{lost} lines left out"), *lines] if lost else lines

    def ending(self, exit_code: int, reason: str) -> RunFinished | None:
        """The `RunFinished` of a run that broke off without one, or None if it came."""
        now = self.snapshot()
        if now.ended is not None:
            return None
        return RunFinished(
            at=now.now,
            exit_code=exit_code,
            done=now.done,
            failed=now.failed,
            cancelled=now.cancelled,
            skipped=now.skipped,
            not_run=now.left or 0,
            seconds=now.figures.wall_seconds,
            output_hidden=now.figures.output_hidden,
            device_idle=now.figures.device_idle,
            longest_gap=now.figures.longest_gap,
            reason=reason,
        )

    def snapshot(self) -> Snapshot:
        """A copy of the state that no later event changes."""
        figures = self._timeline.figures()
        with self._lock:
            now, run = self.clock(), self._run
            per_second = self._rate(now)
            return Snapshot(
                now=now,
                started=run.at if run is not None else None,
                model=run.model if run is not None else "",
                output_dir=run.output_dir if run is not None else "",
                total=run.total if run is not None else None,
                skipped=run.skipped if run is not None else 0,
                done=figures.done,
                failed=figures.failed,
                cancelled=figures.cancelled,
                per_second=per_second,
                workers=self._copy_workers(),
                failures=tuple(self._failures),
                figures=figures,
                ended=self._ended,
            )

    def _rate(self, now: float) -> float | None:
        """Over the last `RECENT` requests; over all since the model was ready while there are fewer."""
        if not self._finishes:
            return None
        if len(self._finishes) < RECENT and self._ready_at is not None:
            begin, count = self._ready_at, len(self._finishes)
        else:
            begin, count = self._finishes[0], len(self._finishes) - 1
        return count / (now - begin) if count and now > begin else None

    def _copy_workers(self) -> tuple[WorkerNow, ...]:
        return tuple(
            WorkerNow(
                number=worker.number,
                title=worker.title,
                loading=worker.loading,
                loading_since=worker.loading_since,
                step=worker.step,
                total=worker.total,
                typical=worker.typical,
                flights=tuple(replace(flight) for flight in self._workers.of(worker.number)),
                lanes={phase: tuple(blocks) for phase, blocks in worker.lanes.items()},
                last=dict(worker.last),
            )
            for _, worker in sorted(self._workers.by_number.items())
        )
