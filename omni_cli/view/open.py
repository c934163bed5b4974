"""Chooses the view of a run and holds it: `with open_view(mode) as observe: ...`."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Protocol, TextIO

from rich.console import Console

from omni_cli.config import ProgressMode
from omni_cli.errors import Interrupted, OmniGenError
from omni_cli.events import AnyEvent, Note, Observer
from omni_cli.view.board import Board
from omni_cli.view.data import DataMode, DataPrinter
from omni_cli.view.jsonl import JsonView
from omni_cli.view.live import LiveView
from omni_cli.view.loop import Lines
from omni_cli.view.outlet import Outlet
from omni_cli.view.plain import PlainView


class View(Protocol):
    """An observer that owns a stream until it is closed."""

    def __call__(self, event: AnyEvent) -> None:
        """Take in one event and return at once."""

    def close(self) -> None:
        """Show the end and give the stream back."""


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
    """Show a run on `stream` (default stderr) and its `data` on `stdout`; gives the observer for the run's events.

    The observer may be called from any thread and returns at once: other threads write. A stream that goes away is let go.
    Leaving without a `RunFinished` (an error, an interrupt) makes one up from what was seen, with the reason.
    """
    outlet = Outlet(stream if stream is not None else sys.stderr)
    board = Board(clock)
    observers: list[Observer] = [board]

    def observe(event: AnyEvent) -> None:
        for observer in observers:
            observer(event)

    with ExitStack() as stack:
        view = _view(resolve(mode, outlet, environ), board, outlet, environ, stream is None or stream is sys.stderr)
        if view is not None:
            stack.callback(view.close)
            observers.append(view)
        if data is not None:
            observers.append(
                _printer(data, stdout if stdout is not None else sys.stdout, view, outlet, observe, stack, clock)
            )
        try:
            yield observe
        except BaseException as error:
            _end(board, observe, *_exit_of(error))
            raise
        _end(board, observe, 3, "the run ended without a result")


def resolve(mode: ProgressMode, outlet: Outlet, environ: Mapping[str, str]) -> ProgressMode:
    """`auto` made definite: rich on a terminal that can draw and is not a CI job's, else plain."""
    if mode != "auto":
        return mode
    ci = environ.get("CI", "").lower() not in ("", "0", "false")
    dumb = environ.get("TERM", "dumb").lower() in ("", "dumb", "unknown")
    unicode = outlet.encoding.lower().replace("-", "").startswith("utf")
    return "rich" if outlet.isatty() and unicode and not ci and not dumb else "plain"


def _view(mode: ProgressMode, board: Board, outlet: Outlet, environ: Mapping[str, str], is_stderr: bool) -> View | None:
    match mode:
        case "rich":
            return LiveView(board, _console(outlet, environ), redirect_stderr=is_stderr)
        case "plain":
            return PlainView(board, outlet)
        case "json":
            return JsonView(outlet)
        case _:
            return None


def _console(outlet: Outlet, environ: Mapping[str, str]) -> Console:
    """A console in which text is only ever text: no markup, no emoji codes, no highlighting."""
    return Console(
        file=outlet,  # type: ignore[arg-type]  # rich uses write, flush, isatty, fileno and encoding
        no_color=bool(environ.get("NO_COLOR")),
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        _environ=environ,  # size, terminal type and colours from the environment that was handed in
    )


def _printer(
    mode: DataMode,
    stdout: TextIO,
    view: View | None,
    outlet: Outlet,
    observe: Observer,
    stack: ExitStack,
    clock: Callable[[], float],
) -> Observer:
    """Data goes to stdout; above the live part where that stands on the same terminal."""

    def gone(why: str) -> None:
        text = (
            f"stdout cannot be written any more: {why}; printing stops, the run goes on, manifest.jsonl has every row"
        )
        observe(Note(at=clock(), level="warning", text=text))

    target = Outlet(stdout, on_gone=gone)
    if isinstance(view, LiveView) and target.same_terminal(outlet):
        return DataPrinter(mode, view.put)
    lines = Lines(target, "view-data")
    stack.callback(lines.close)
    return DataPrinter(mode, lines.put)


def _end(board: Board, observe: Observer, exit_code: int, reason: str) -> None:
    ending = board.ending(exit_code, reason)
    if ending is not None:
        observe(ending)


def _exit_of(error: BaseException) -> tuple[int, str]:
    """The exit code and the reason that an exception gives to the run it ends."""
    if isinstance(error, KeyboardInterrupt | Interrupted):
        return 130, str(error) or "interrupted"
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, OmniGenError):
        return error.exit_code, str(error) or reason
    if isinstance(error, SystemExit):
        code = error.code
        return (code if isinstance(code, int) else 0 if code is None else 1), "exit"
    return 3, reason
