"""Choice and lifetime of a run's view, and the results on stdout: `with open_view(mode) as observe: ...`.

                  ┌─> RunState <── snapshots ── LiveView or PlainView ──> stderr
observe(event) ───┼─> the view (JsonView: events as JSON lines) ────────> stderr
                  └─> DataPrinter (`--print`) ──────────────────────────> stdout
"""

import os
import posixpath
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Literal, Protocol, TextIO, runtime_checkable

from omni_cli.config import ProgressMode
from omni_cli.errors import Interrupted, OmniGenError
from omni_cli.events import AnyEvent, Note, Observer, RequestFinished, RunStarted
from omni_cli.view.json_view import JsonView, json_line
from omni_cli.view.plain_view import PlainView
from omni_cli.view.run_state import RunState
from omni_cli.view.safe_stream import SafeStream
from omni_cli.view.view_thread import LineWriter

DataMode = Literal["paths", "json"]


class View(Protocol):
    """An observer that owns a stream until it is closed."""

    def __call__(self, event: AnyEvent) -> None:
        """Record an event and return at once."""

    def close(self) -> None:
        """Show the end of the run and release the stream."""


@runtime_checkable
class LineSink(View, Protocol):
    """A view that prints lines of data above its live part."""

    def put(self, line: bytes) -> None:
        """Print `line`, which has no line break."""


@contextmanager
def open_view(
    mode: ProgressMode = "auto",
    *,
    stream: TextIO | None = None,
    stdout: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
    data: DataMode | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Observer]:
    """Show a run on `stream` (default stderr) and its `data` on `stdout`; yield the observer of the run's events.

    The observer may be called from any thread and returns at once, because other threads write. If the block ends
    without a `RunFinished`, by an error or an interrupt, one is emitted with what was seen and the reason.
    """
    output = SafeStream(stream if stream is not None else sys.stderr)
    state = RunState(clock)
    observers: list[Observer] = [state]

    def observe(event: AnyEvent) -> None:
        for observer in observers:
            observer(event)

    def finish(exit_code: int, reason: str) -> None:
        end = state.missing_end(exit_code, reason)
        if end is not None:
            observe(end)

    with ExitStack() as stack:
        view = _make_view(resolve_mode(mode, output, environ), state, output, environ, stream in (None, sys.stderr))
        if view is not None:
            stack.callback(view.close)
            observers.append(view)
        if data is not None:
            target = SafeStream(
                stdout if stdout is not None else sys.stdout,
                on_broken=lambda reason: observe(_stdout_broken(reason, clock())),
            )
            observers.append(DataPrinter(data, _open_data_writer(target, view, output, stack)))
        try:
            yield observe
        except BaseException as error:
            finish(*_exit_code_and_reason(error))
            raise
        finish(3, "the run ended without a result")


def resolve_mode(mode: ProgressMode, stream: SafeStream, environ: Mapping[str, str]) -> ProgressMode:
    """Resolve `auto`: rich on a terminal that can draw and is not a CI job's, else plain."""
    if mode != "auto":
        return mode
    ci = environ.get("CI", "").lower() not in ("", "0", "false")
    dumb = environ.get("TERM", "dumb").lower() in ("", "dumb", "unknown")
    unicode = stream.encoding.lower().replace("-", "").startswith("utf")
    return "rich" if stream.isatty() and unicode and not ci and not dumb else "plain"


def _make_view(
    mode: ProgressMode, state: RunState, stream: SafeStream, environ: Mapping[str, str], is_stderr: bool
) -> View | None:
    match mode:
        case "rich":
            from omni_cli.view.rich_view import LiveView, literal_console  # rich takes 25 ms

            return LiveView(state, literal_console(stream, environ), redirect_stderr=is_stderr)
        case "plain":
            return PlainView(state, stream)
        case "json":
            return JsonView(stream)
        case _:
            return None


def _open_data_writer(
    stdout: SafeStream, view: View | None, view_stream: SafeStream, stack: ExitStack
) -> Callable[[bytes], None]:
    """Return a function that queues a line for stdout: above the live part if that is on the same terminal."""
    if isinstance(view, LineSink) and stdout.same_terminal(view_stream):
        return view.put
    writer = LineWriter(stdout, "view-data")
    stack.callback(writer.close)
    return writer.put


def _stdout_broken(reason: str, at: float) -> Note:
    text = f"stdout cannot be written any more: {reason}; printing stops, the run goes on, manifest.jsonl has every row"
    return Note(at=at, level="warning", text=text)


class DataPrinter:
    """The observer behind `--print`: a line per file of each done request, or the manifest row of every request."""

    def __init__(self, mode: DataMode, put: Callable[[bytes], None]) -> None:
        """Pass each line, without its line break, to `put`."""
        self._mode = mode
        self._put = put
        self._output_dir = ""

    def __call__(self, event: AnyEvent) -> None:
        """Print the lines of a finished request."""
        match event:
            case RunStarted():
                self._output_dir = event.output_dir
            case RequestFinished() if self._mode == "json":
                self._put(json_line(event.result))
            case RequestFinished() if event.result.status == "done":
                for file in event.result.files:
                    self._put(os.fsencode(posixpath.join(self._output_dir, file.path)))
            case _:
                pass


def _exit_code_and_reason(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the reason of a run that `error` ends."""
    if isinstance(error, KeyboardInterrupt | Interrupted):
        return 130, str(error) or "interrupted"
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, OmniGenError):
        return error.exit_code, str(error) or reason
    if isinstance(error, SystemExit):
        code = error.code
        return (code if isinstance(code, int) else 0 if code is None else 1), "exit"
    return 3, reason
