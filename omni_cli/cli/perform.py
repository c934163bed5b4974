"""A run with everything a person expects around it: the view, the signals, the log, the trace."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import msgspec
import typer

from omni_cli.api.live import run_live
from omni_cli.api.run import run_file
from omni_cli.api.session import Session
from omni_cli.cli.signals import stopping
from omni_cli.config import ProgressMode, RunConfig, output_timeout
from omni_cli.disk import reason
from omni_cli.errors import Interrupted, UsageError
from omni_cli.events import Note
from omni_cli.log import log_to_file, warnings_to
from omni_cli.planner.source import Source
from omni_cli.trace import Timeline
from omni_cli.view import open_view


def perform(
    prompts: str,
    settings: RunConfig,
    progress: ProgressMode,
    data: Literal["paths", "json"] | None,
    trace: Path | None,
    log: Path | None,
) -> int:
    """Run `prompts` and return the exit code, which speaks of the requests alone. Raises OmniGenError.

    The trace is written however the run ended; where that is not possible, stderr says so.
    """
    timeline = Timeline(keep_spans=trace is not None)
    with ExitStack() as stack:
        if log is not None:
            stack.enter_context(_logging(log))
        source = stack.enter_context(Source(prompts, settings.defaults, streaming=True))
        if trace is not None:
            _check_place(trace)
            stack.callback(_write_trace, timeline, trace)
        observe = stack.enter_context(open_view(progress, data=data))
        stack.enter_context(warnings_to(lambda text: observe(Note(at=time.monotonic(), level="warning", text=text))))
        engine = msgspec.structs.replace(settings.engine, output_timeout=output_timeout())
        session = stack.enter_context(Session(msgspec.structs.replace(settings, engine=engine), observe, timeline))
        stack.enter_context(stopping(session.stop.request, session.kill))
        try:
            return run_live(session, source) if source.live else run_file(session, source)
        except Interrupted:
            return session.stop.exit_code


@contextmanager
def _logging(path: Path) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(log_to_file(path))
        except OSError as error:
            raise UsageError(f"--log-file {path}: cannot be written: {error.strerror or error}") from error
        yield


def _check_place(trace: Path) -> None:
    """Raise UsageError now for a trace that could not be written when the run is over."""
    folder = trace.absolute().parent
    if trace.is_dir() or not folder.is_dir() or not os.access(trace if trace.exists() else folder, os.W_OK):
        raise UsageError(f"--trace {trace}: cannot be written: name a file in a folder that exists and can be written")


def _write_trace(timeline: Timeline, path: Path) -> None:
    """A trace that is lost is no reason to say that the run failed."""
    try:
        timeline.write_chrome_trace(path)
    except OSError as error:
        typer.echo(f"omni-gen: --trace {path}: cannot be written: {reason(error)}", err=True)
