"""`--progress plain`: one line at a time without escape sequences, for logs, CI and terminals that cannot draw."""

from omni_cli.events import AnyEvent, ForwardStep
from omni_cli.text import printable
from omni_cli.view.run_state import RunState
from omni_cli.view.safe_stream import SafeStream
from omni_cli.view.snapshot import RunSnapshot, StatusLine
from omni_cli.view.view_thread import ViewThread
from omni_cli.view.wording import duration, headline, note_lines, rate, summary_rows

PROGRESS_INTERVAL_S = 5.0
MIN_INTERVAL_S = 0.1
MAX_CHARACTERS = 1000
MAX_LOADING_LINES = 100
_PREFIXES = {"loading": "", "ready": "", "info": "", "warning": "warning: ", "error": "error: "}


class PlainView:
    """A view that writes status lines, and progress at the first result and every `PROGRESS_INTERVAL_S` seconds."""

    def __init__(self, state: RunState, stream: SafeStream) -> None:
        """Write the news of `state` to `stream`."""
        self._state = state
        self._stream = stream
        self._start_written = False
        self._finished_written = 0
        self._progress_written_at = 0.0
        self._loading_written: set[str] = set()
        self._thread = ViewThread(self._step, min_interval=MIN_INTERVAL_S, name="view-plain")

    def __call__(self, event: AnyEvent) -> None:
        """Wake the writing thread if the event may bring a line."""
        if not isinstance(event, ForwardStep):
            self._thread.wake()

    def close(self) -> None:
        """Write the remaining lines and the summary."""
        self._thread.close()
        run = self._state.snapshot()
        self._write_status(run)
        if run.started is None or run.end is None:
            return
        self._write(f"finished: {headline(run)}")
        if run.end.reason:
            self._write(f"reason: {run.end.reason}")
        rows = summary_rows(run)
        figures = "; ".join(f"{row.label} {row.value}" for row in rows if row.label != "files")
        if figures:
            self._write(figures)
        for line in note_lines(run):
            self._write(f"noted {line}")
        for row in rows:
            if row.label == "files":
                self._write(f"files in {row.value}")

    def _step(self) -> float | None:
        run = self._state.snapshot()
        self._write_status(run)
        if run.finished == self._finished_written or run.remaining == 0:
            return None
        wait = self._progress_written_at + PROGRESS_INTERVAL_S - run.time
        if self._finished_written and wait > 0:
            return wait
        self._write(describe_progress(run))
        self._finished_written, self._progress_written_at = run.finished, run.time
        return None

    def _write_status(self, run: RunSnapshot) -> None:
        if run.started is not None and not self._start_written:
            self._start_written = True
            self._write(describe_start(run))
        for line in self._state.take_lines():
            if self._is_new(line):
                self._write(_PREFIXES[line.kind] + line.text)

    def _is_new(self, line: StatusLine) -> bool:
        """Return whether to write `line`: each wording of a loading line only once, and a limited number of them."""
        if line.kind != "loading":
            return True
        if line.text in self._loading_written or len(self._loading_written) > MAX_LOADING_LINES:
            return False
        self._loading_written.add(line.text)
        return True

    def _write(self, line: str) -> None:
        whole = f"omni-gen: {printable(line)}"
        self._stream.write((whole if len(whole) <= MAX_CHARACTERS else whole[: MAX_CHARACTERS - 3] + "...") + "\n")


def describe_start(run: RunSnapshot) -> str:
    """Return `3 requests to render with demo, 2 already done`."""
    requests = f"{run.total} request{'' if run.total == 1 else 's'}" if run.total is not None else "requests"
    skipped = f", {run.skipped} already done" if run.skipped else ""
    return f"{requests} to render with {run.model}{skipped}"


def describe_progress(run: RunSnapshot) -> str:
    """Return `12/100 done, 1 failed, 3.4/s, ETA 26 s`."""
    parts = [f"{run.figures.done}/{run.total} done" if run.total is not None else f"{run.figures.done} done"]
    if run.figures.failed:
        parts.append(f"{run.figures.failed} failed")
    if run.figures.cancelled:
        parts.append(f"{run.figures.cancelled} cancelled")
    if run.per_second:
        parts.append(rate(run.per_second))
    if run.eta is not None:
        parts.append(f"ETA {duration(run.eta)}")
    return ", ".join(parts)
