"""The state of a run as views need it. Observers update it under a lock, the drawing thread takes snapshots.

observers (any thread) ── event ──> RunState ── snapshot(), take_lines() ──> drawing thread
"""

import threading
import time
from collections import deque
from collections.abc import Callable

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
    OutputArrived,
    PreviewWritten,
    RequestFinished,
    RunFinished,
    RunStarted,
    RunStopping,
)
from omni_cli.notes import NoteCounts
from omni_cli.text import printable
from omni_cli.trace import Timeline
from omni_cli.view.snapshot import Failure, LineKind, RunSnapshot, StatusLine
from omni_cli.view.wording import describe_stop, duration
from omni_cli.view.workers import Workers

MAX_FAILURES = 10
"""Failures that the summary lists."""

MAX_NOTE_KINDS = 5
"""Kinds of notes that the summary lists."""

MAX_FAILURE_LINES = 100
"""Failures that get a line of their own during the run."""

MAX_LINES = 1000
"""Status lines that wait to be shown; beyond it the oldest is dropped."""

MAX_LINE_CHARACTERS = 4000
RATE_WINDOW = 200
"""Finished requests over which the rate is measured."""


class RunState:
    """An observer that keeps what views show; its memory does not grow with the number of requests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start before the run. `clock` is the clock of the events, in seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._timeline = Timeline()
        self._workers = Workers()
        self._start: RunStarted | None = None
        self._end: RunFinished | None = None
        self._ready_at: float | None = None
        self._finish_times: deque[float] = deque(maxlen=RATE_WINDOW)
        self._failures: list[Failure] = []
        self._failed = 0
        self._with_notes = 0
        self._note_counts = NoteCounts()
        self._lines: deque[StatusLine] = deque()
        self._dropped_lines = 0
        self._preview_shown = False
        self._stopping = False

    def __call__(self, event: AnyEvent) -> None:
        """Record an event, from any thread."""
        self._timeline(event)
        with self._lock:
            self._record(event)

    def _record(self, event: AnyEvent) -> None:
        match event:
            case RunStarted():
                self._start = event
            case ModelLoading():
                self._workers.model_loading(event)
                self._add_line("loading", f"worker {event.worker}: loading {event.what}")
            case ModelReady():
                self._model_ready(event)
            case ModelSwitched():
                self._add_line("info", f"switching to model {event.model}")
            case ForwardStarted():
                self._workers.forward_started(event)
            case ForwardStep():
                worker = self._workers.get(event.worker)
                worker.step, worker.total_steps = event.step, event.total
            case PreviewWritten():
                self._preview_written(event)
            case ForwardDone():
                self._workers.forward_done(event)
            case OutputArrived():
                self._workers.output_arrived(event)
            case EncodeStarted():
                self._workers.encode_started(event.id, event.at)
            case EncodeDone():
                self._workers.encode_done(event)
            case RequestFinished():
                self._request_finished(event)
            case Note():
                self._add_line(
                    "error" if event.level == "error" else "warning" if "warn" in event.level else "info", event.text
                )
            case RunStopping():
                self._stopping = True
                self._add_line("warning", describe_stop(event))
            case RunFinished():
                self._end = self._end or event

    def _model_ready(self, event: ModelReady) -> None:
        worker = self._workers.get(event.worker)
        worker.loading, worker.device = None, event.device
        self._ready_at = event.at if self._ready_at is None else self._ready_at
        model = f"{event.pipeline} on {event.device}, {event.dtype}"
        self._add_line("ready", f"worker {event.worker}: {model}, ready after {duration(event.seconds)}")

    def _preview_written(self, event: PreviewWritten) -> None:
        """Show the path of the first preview only: the others lie beside their outputs as well."""
        if not self._preview_shown:
            self._preview_shown = True
            path = f"{self._start.output_dir}/{event.path}" if self._start is not None else event.path
            self._add_line("info", f"previews beside the outputs while these are in the making: {path}")

    def _request_finished(self, event: RequestFinished) -> None:
        result = event.result
        self._workers.request_finished(event)
        if result.status != "cancelled":
            self._finish_times.append(event.at)
        if result.status == "done" and result.notes:
            self._with_notes += 1
            self._note_counts.add(result.notes)
        if result.status != "failed":
            return
        self._failed += 1
        error = result.error
        failure = Failure(result.id, error.kind if error else "failed", error.message if error else "")
        if len(self._failures) < MAX_FAILURES:
            self._failures.append(failure)
        if self._failed <= MAX_FAILURE_LINES:
            self._add_line("error", f"{failure.id}: {failure.kind}: {failure.message}")
        if self._failed == MAX_FAILURE_LINES:
            self._add_line("warning", "further failures are only counted here; manifest.jsonl has them all")

    def _add_line(self, kind: LineKind, line: str) -> None:
        if len(self._lines) >= MAX_LINES:
            self._lines.popleft()
            self._dropped_lines += 1
        self._lines.append(StatusLine(kind, printable(line[:MAX_LINE_CHARACTERS]).strip()))

    def take_lines(self) -> list[StatusLine]:
        """Return the lines since the last call, after a line that counts the dropped ones."""
        with self._lock:
            lines, dropped = list(self._lines), self._dropped_lines
            self._lines.clear()
            self._dropped_lines = 0
        return [StatusLine("warning", f"{dropped} lines left out"), *lines] if dropped else lines

    def missing_end(self, exit_code: int, reason: str) -> RunFinished | None:
        """Return the `RunFinished` of a run that ended without one, or None if it came."""
        run = self.snapshot()
        if run.end is not None:
            return None
        return RunFinished(
            at=run.time,
            exit_code=exit_code,
            done=run.figures.done,
            failed=run.figures.failed,
            cancelled=run.figures.cancelled,
            skipped=run.skipped,
            not_run=run.remaining or 0,
            with_notes=self._with_notes,
            seconds=run.figures.wall_seconds,
            output_hidden=run.figures.output_hidden,
            device_idle=run.figures.device_idle,
            longest_gap=run.figures.longest_gap,
            reason=reason,
        )

    def snapshot(self) -> RunSnapshot:
        """Return a copy of the state, which later events do not change."""
        figures = self._timeline.figures()
        with self._lock:
            time_now, start = self._clock(), self._start
            return RunSnapshot(
                time=time_now,
                started=start.at if start is not None else None,
                model=start.model if start is not None else "",
                output_dir=start.output_dir if start is not None else "",
                total=start.total if start is not None else None,
                skipped=start.skipped if start is not None else 0,
                per_second=self._rate(time_now),
                workers=self._workers.copy_states(),
                in_flight=self._workers.copy_in_flight(),
                failures=tuple(self._failures),
                notes=self._note_counts.most_frequent(MAX_NOTE_KINDS),
                figures=figures,
                stopping=self._stopping,
                end=self._end,
            )

    def _rate(self, time_now: float) -> float | None:
        """Return requests per second over the last `RATE_WINDOW`, or since the model was ready if there are fewer.

        Cancelled requests do not count.
        """
        if not self._finish_times:
            return None
        if len(self._finish_times) < RATE_WINDOW and self._ready_at is not None:
            begin, count = self._ready_at, len(self._finish_times)
        else:
            begin, count = self._finish_times[0], len(self._finish_times) - 1
        return count / (time_now - begin) if count and time_now > begin else None
