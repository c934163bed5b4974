"""A run with its surroundings: progress view, signals, log file and trace."""

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import msgspec
import typer

from omni_cli.api.run_file import run_file
from omni_cli.api.run_stream import run_stream
from omni_cli.api.session import Session
from omni_cli.cli.signals import stopping
from omni_cli.config import ProgressMode, RunConfig, output_timeout
from omni_cli.errors import Interrupted, UsageError
from omni_cli.events import Note
from omni_cli.log import log_to_file, warnings_to
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.storage.disk_errors import describe_error
from omni_cli.trace import Timeline
from omni_cli.view import open_view


def run_with_view(
    source: PromptSource,
    config: RunConfig,
    progress: ProgressMode,
    data: Literal["paths", "json"] | None,
    trace: Path | None = None,
    log: Path | None = None,
) -> int:
    """Run `source`, not open yet, and return the exit code, which depends on the requests alone.

    The trace is written however the run ends; if it cannot be, a line on stderr reports it. Raises UsageError for a log
    or trace that cannot be written, and what `run_file` and `run_stream` raise.
    """
    timeline = Timeline(keep_spans=trace is not None)
    with ExitStack() as stack:
        if log is not None:
            try:
                stack.enter_context(log_to_file(log))
            except OSError as error:
                raise UsageError(f"--log-file {log}: cannot be written: {error.strerror or error}") from error
        stack.enter_context(source)
        if trace is not None:
            _check_writable(trace)
            stack.callback(_write_trace, timeline, trace)
        observe = stack.enter_context(open_view(progress, data=data))
        stack.enter_context(warnings_to(lambda text: observe(Note(at=time.monotonic(), level="warning", text=text))))
        engine = msgspec.structs.replace(config.engine, output_timeout=output_timeout())
        config = msgspec.structs.replace(config, engine=engine)
        session = Session(config, observe, timeline, base=source.base)
        stop_timeout, abort = config.stop_timeout, session.abort
        stack.enter_context(stopping(session.stop.request, session.kill, timeout=stop_timeout, on_timeout=abort))
        stack.enter_context(session)
        try:
            return run_stream(session, source) if source.live else run_file(session, source)
        except Interrupted:
            return session.stop.exit_code


def _check_writable(trace: Path) -> None:
    """Raise UsageError before the run for a trace that could not be written after it."""
    folder = trace.absolute().parent
    if trace.is_dir() or not folder.is_dir() or not os.access(trace if trace.exists() else folder, os.W_OK):
        raise UsageError(f"--trace {trace}: cannot be written: name a file in a folder that exists and can be written")


def _write_trace(timeline: Timeline, path: Path) -> None:
    """Write the trace; report an error without failing the run."""
    try:
        timeline.write_chrome_trace(path)
    except OSError as error:
        typer.echo(f"omni-gen: --trace {path}: cannot be written: {describe_error(error)}", err=True)
