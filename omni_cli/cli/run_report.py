"""`run --report` and `run --report-live`: the report of the folder that a run writes to."""

import sys
from collections.abc import Callable
from pathlib import Path

import typer

from omni_cli.child_process import ChildProcess, with_log_tail
from omni_cli.cli.html_report import StageLines
from omni_cli.errors import Interrupted, OmniGenError, UsageError
from omni_cli.journal import has_manifest
from omni_cli.report import default_page, write_report
from omni_cli.text import printable

INTERRUPTED_WAIT_S = 10.0
"""How long the end of an interrupted run waits for its live page, in seconds."""

FIRST_SIGNAL_CODE = 129
"""Exit codes from here on are those of signals."""


def run_and_report(render: Callable[[], int], output_dir: Path, *, live: bool, quiet: bool) -> int:
    """Return the exit code of `render`, a run into `output_dir`, after the report of the folder is written.

    It is written whatever has failed once the run had begun, but not after an interruption. With `live`, a process of
    its own writes it again and again meanwhile. A report that cannot be written is a line on stderr and changes no
    exit code; with `quiet`, there are no other lines.
    """
    process = _start_live(output_dir, quiet) if live else None
    is_wanted = False
    try:
        code = render()
        is_wanted = code < FIRST_SIGNAL_CODE
    except (Interrupted, UsageError):
        raise
    except OmniGenError:
        is_wanted = True
        raise
    finally:
        if process is not None:
            _end_live(process, None if is_wanted else INTERRUPTED_WAIT_S)
        elif is_wanted:
            _write(output_dir, quiet)
    return code


def _write(output_dir: Path, quiet: bool) -> None:
    if not has_manifest(output_dir):
        return  # the folder is gone, and the run's error says so
    try:
        written = write_report(output_dir, on_stage=(lambda *_: None) if quiet else StageLines())
    except OmniGenError as error:
        typer.echo(f"omni-gen: --report: {printable(str(error))}", err=True)
        return
    if not quiet:
        typer.echo(f"omni-gen: {written.summary}, in {printable(str(written.page))}", err=True)


def _start_live(output_dir: Path, quiet: bool) -> ChildProcess:
    """Start the process that follows the run. Raises UsageError if it cannot be started."""
    command = [sys.executable, "-m", "omni_cli.report.live_page", str(output_dir.absolute())]
    try:
        process = ChildProcess.start(command, pipes=True)
    except OSError as error:
        raise UsageError(f"--report-live: {sys.executable} cannot be started: {error.strerror or error}") from error
    if not quiet:
        typer.echo(f"omni-gen: live report in {printable(str(default_page(output_dir)))}", err=True)
    return process


def _end_live(process: ChildProcess, patience: float | None) -> None:
    """Let the process write its last page, for up to `patience` seconds, and report how it failed, if it has."""
    process.stdin.close()
    if process.wait_or_kill(patience) > 0:
        text = with_log_tail(f"the process that writes the report {process.exit_report()}", process.log_tail())
        typer.echo(f"omni-gen: --report-live: {printable(text)}", err=True)
    process.close()
