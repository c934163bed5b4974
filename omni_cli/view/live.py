"""`--progress rich`: a live part at the bottom of the terminal, lines above it, a summary table at the end.

The drawing thread alone touches the console while the run goes; a slow or stopped terminal stops only that thread.
"""

import os
from collections import deque

from rich.console import Console, Group
from rich.live import Live
from rich.style import Style
from rich.table import Table
from rich.text import Text

from omni_cli.events import AnyEvent
from omni_cli.view import text
from omni_cli.view.board import Board
from omni_cli.view.frame import BOLD, GREEN, RED, frame
from omni_cli.view.lanes import DIM, FIRST_WINDOW, next_window
from omni_cli.view.loop import Loop
from omni_cli.view.snapshot import Snapshot
from omni_cli.view.summary import facts, headline

SPACING_S = 0.1
YELLOW = Style.parse("yellow")
_MARKS = {"info": ("· ", DIM), "ready": ("✓ ", GREEN), "warning": ("! ", YELLOW), "error": ("✗ ", RED)}


class LiveView:
    """Draws `board` on `console` ten times a second."""

    def __init__(self, board: Board, console: Console, *, redirect_stderr: bool = False) -> None:
        """Take the terminal. `redirect_stderr`: what others print on sys.stderr appears above the live part."""
        self._board = board
        self._console = console
        self._window = FIRST_WINDOW
        self._data: deque[str] = deque()
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=redirect_stderr,
            vertical_overflow="crop",
        )
        self._live.start()
        self._loop = Loop(self._draw, spacing=SPACING_S, name="view-live")

    def __call__(self, event: AnyEvent) -> None:
        """Nothing to do at once: the next frame shows it."""

    def put(self, line: bytes) -> None:
        """A line of data for the same terminal, shown above the live part."""
        self._data.append(os.fsdecode(line))

    def close(self) -> None:
        """Give the terminal back and leave the summary on it."""
        try:
            self._loop.close()
        finally:
            self._live.stop()
        self._print_lines()
        now = self._board.snapshot()
        if now.started is not None and now.ended is not None:
            self._console.print(summary_table(now))

    def _draw(self) -> float:
        self._print_lines()
        now = self._board.snapshot()
        self._window = next_window(self._window, max((worker.typical for worker in now.workers), default=0.0))
        width, height = self._console.size
        colour = self._console.color_system is not None and not self._console.no_color
        self._live.update(frame(now, width=width, height=height, window=self._window, colour=colour), refresh=True)
        return SPACING_S

    def _print_lines(self) -> None:
        for line in self._board.take_lines():
            if line.kind != "loading":
                mark, style = _MARKS[line.kind]
                self._console.print(Text.assemble((mark, style), line.text, overflow="fold"))
        while self._data:
            self._console.print(Text(text.printable(self._data.popleft())), soft_wrap=True)


def summary_table(now: Snapshot) -> Group:
    """The summary: headline, facts, the first failures with their reasons."""
    ended = now.ended
    assert ended is not None
    mark = ("✓ ", GREEN) if ended.exit_code == 0 else ("✗ ", RED)
    parts: list[Text | Table] = [Text(), Text.assemble(mark, (headline(now), BOLD))]
    if ended.reason:
        parts.append(Text(f"  {text.printable(ended.reason)}", RED))
    rows = Table.grid(padding=(0, 2, 0, 0))
    for fact in facts(now):
        rows.add_row(Text(f"  {fact.label}", DIM), Text(fact.value, overflow="fold"))
    parts.append(rows)
    if now.failures:
        parts += [Text("  failures", DIM), _failures(now)]
    if ended.failed > len(now.failures):
        parts.append(Text(f"    … and {ended.failed - len(now.failures)} more, see manifest.jsonl", DIM))
    return Group(*parts)


def _failures(now: Snapshot) -> Table:
    rows = Table.grid(padding=(0, 2, 0, 0))
    for failure in now.failures:
        why = f"{failure.kind}: {text.printable(failure.message[:1000]).strip()}"
        rows.add_row(Text(f"    {text.cut_middle(failure.id, 28)}", RED), Text(why, overflow="fold"))
    return rows
