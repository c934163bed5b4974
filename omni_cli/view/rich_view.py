"""`--progress rich`: a live part at the bottom of the terminal, lines above it, and a summary at the end.

During the run only the drawing thread uses the console: a slow or stopped terminal blocks that thread alone.
"""

import os
from collections import deque
from collections.abc import Mapping

from rich.console import Console, Group
from rich.live import Live
from rich.style import Style
from rich.table import Table
from rich.text import Text

from omni_cli.events import AnyEvent
from omni_cli.text import printable
from omni_cli.view.rich_frame import BOLD, GREEN, RED, draw_frame
from omni_cli.view.run_state import RunState
from omni_cli.view.safe_stream import SafeStream
from omni_cli.view.snapshot import RunSnapshot
from omni_cli.view.tracks import DIM, INITIAL_WINDOW, choose_window
from omni_cli.view.view_thread import ViewThread
from omni_cli.view.wording import cut_middle, headline, note_lines, summary_rows

FRAME_INTERVAL_S = 0.1
MAX_MESSAGE_CHARACTERS = 1000
YELLOW = Style.parse("yellow")
_MARKS = {"info": ("· ", DIM), "ready": ("✓ ", GREEN), "warning": ("! ", YELLOW), "error": ("✗ ", RED)}


class LiveView:
    """A view that draws the run's state every `FRAME_INTERVAL_S` seconds."""

    def __init__(self, state: RunState, console: Console, *, redirect_stderr: bool = False) -> None:
        """Start drawing `state` on `console`.

        With `redirect_stderr`, text that others write to sys.stderr appears above the live part.
        """
        self._state = state
        self._console = console
        self._window = INITIAL_WINDOW
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
        self._thread = ViewThread(self._draw, min_interval=FRAME_INTERVAL_S, name="view-live")

    def __call__(self, event: AnyEvent) -> None:
        """Do nothing: the next frame shows the event."""

    def put(self, line: bytes) -> None:
        """Queue a line of data for the same terminal, to appear above the live part."""
        self._data.append(os.fsdecode(line))

    def close(self) -> None:
        """Stop drawing, restore the terminal and print the summary."""
        try:
            self._thread.close()
        finally:
            self._live.stop()
        self._print_lines()
        run = self._state.snapshot()
        if run.started is not None and run.end is not None:
            self._console.print(summary_table(run))

    def _draw(self) -> float:
        self._print_lines()
        run = self._state.snapshot()
        self._window = choose_window(self._window, max((worker.forward_seconds for worker in run.workers), default=0.0))
        width, height = self._console.size
        colour = self._console.color_system is not None and not self._console.no_color
        frame = draw_frame(run, width=width, height=height, window=self._window, colour=colour)
        self._live.update(frame, refresh=True)
        return FRAME_INTERVAL_S

    def _print_lines(self) -> None:
        for line in self._state.take_lines():
            if line.kind != "loading":
                mark, style = _MARKS[line.kind]
                self._console.print(Text.assemble((mark, style), line.text, overflow="fold"))
        while self._data:
            self._console.print(Text(printable(self._data.popleft())), soft_wrap=True)


def summary_table(run: RunSnapshot) -> Group:
    """Return the summary of a run that has ended: headline, figures, and the first failures with their messages."""
    end = run.end
    assert end is not None
    mark = ("✓ ", GREEN) if end.exit_code == 0 else ("✗ ", RED)
    parts: list[Text | Table] = [Text(), Text.assemble(mark, (headline(run), BOLD))]
    if end.reason:
        parts.append(Text(f"  {printable(end.reason)}", RED))
    rows = Table.grid(padding=(0, 2, 0, 0))
    for row in summary_rows(run):
        rows.add_row(Text(f"  {row.label}", DIM), Text(row.value, overflow="fold"))
    parts.append(rows)
    if run.notes:
        parts.append(Text("  notes", DIM))
        parts += [Text(f"    {printable(line)}", YELLOW, overflow="fold") for line in note_lines(run)]
    if run.failures:
        failures = Table.grid(padding=(0, 2, 0, 0))
        for failure in run.failures:
            error = f"{failure.kind}: {printable(failure.message[:MAX_MESSAGE_CHARACTERS]).strip()}"
            failures.add_row(Text(f"    {cut_middle(failure.id, 28)}", RED), Text(error, overflow="fold"))
        parts += [Text("  failures", DIM), failures]
    if end.failed > len(run.failures):
        parts.append(Text(f"    … and {end.failed - len(run.failures)} more, see manifest.jsonl", DIM))
    return Group(*parts)


def literal_console(stream: SafeStream, environ: Mapping[str, str]) -> Console:
    """Return a console that prints text literally: no markup, no emoji codes, no highlighting."""
    return Console(
        file=stream,  # type: ignore[arg-type]  # rich uses write, flush, isatty, fileno and encoding
        no_color=bool(environ.get("NO_COLOR")),
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        _environ=environ,  # rich reads size, terminal type and colours from it
    )
