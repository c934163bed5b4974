"""A run with everything a person expects around it: the view, the signals, the log, the trace."""

from pathlib import Path
from typing import Literal

from omni_cli.api.run import run_file
from omni_cli.api.session import Session
from omni_cli.api.source import Source
from omni_cli.cli.signals import stopping
from omni_cli.config import ProgressMode, RunConfig
from omni_cli.errors import Interrupted, UsageError
from omni_cli.log import log_to_file
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
    """Run `prompts` and return the exit code. Raises OmniGenError; the trace is written however the run ended."""
    timeline = Timeline(keep_spans=trace is not None)
    handler = log_to_file(log) if log is not None else None
    try:
        with (
            Source(prompts, settings.defaults) as source,
            open_view(progress, data=data) as observe,
            Session(settings, observe, timeline) as session,
            stopping(session.stop.request, session.kill) as caught,
        ):
            try:
                return caught.exit_code(run_file(session, source))
            except Interrupted as error:
                return caught.exit_code(error.exit_code)
    finally:
        if trace is not None:
            _write_trace(timeline, trace)
        if handler is not None:
            handler.close()


def _write_trace(timeline: Timeline, path: Path) -> None:
    try:
        timeline.write_chrome_trace(path)
    except OSError as error:
        raise UsageError(f"--trace {path}: cannot be written: {error.strerror or error}") from error
