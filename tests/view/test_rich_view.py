"""The live view on a pseudo-terminal, and its summary."""

import io
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from omni_cli.events import AnyEvent, Note, RequestFinished, RunFinished
from omni_cli.view import open_view
from omni_cli.view.rich_view import LiveView, summary_table
from omni_cli.view.run_state import RunState
from tests.view.conftest import wait_for

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


def summary(events: list[AnyEvent], width: int = 80) -> list[str]:
    state = RunState(clock=lambda: 17)
    for event in events:
        state(event)
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(summary_table(state.snapshot()))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().split("\n")]


def test_summary_shows_counts_times_overlap_files_and_failures(
    opening: list[AnyEvent], middle: list[AnyEvent], closing: list[AnyEvent]
) -> None:
    assert summary(opening + middle + closing) == [
        "",
        "✗ 2 done, 1 failed, 2 already done in 5.0 s, 24/min",
        "  forward  3.0 s in 2 forwards",
        "  D2H      1.0 s, 1.0 MiB moved and 512 B copied per request",
        "  encode   1.2 s",
        "  write    500 ms",
        "  hidden   50 % of output time behind forwards",
        "  device   idle 0 % between forwards, longest gap 0 ms",
        "  files    out",
        "  failures",
        "    c  write_failed: out of memory [bold]␛[2J",
        "",
    ]


def ended(**changes: Any) -> RunFinished:
    facts: dict[str, Any] = {"done": 0, "failed": 0, "cancelled": 0, "skipped": 0, "not_run": 0, "exit_code": 0}
    return RunFinished(at=17, seconds=5, output_hidden=None, device_idle=None, longest_gap=None, **{**facts, **changes})


def test_summary_counts_the_failures_it_does_not_list(
    opening: list[AnyEvent], finish: Callable[..., RequestFinished]
) -> None:
    lines = summary([*opening, *(finish(f"r{n}", 13, "failed") for n in range(13)), ended(failed=13, exit_code=1)])
    assert sum("write_failed" in line for line in lines) == 10
    assert "    … and 3 more, see manifest.jsonl" in lines


def test_notes_are_counted_by_kind_in_the_summary(
    opening: list[AnyEvent], finish: Callable[..., RequestFinished]
) -> None:
    rows = [("cut at 1", "[red]dark\x1b[2J"), ("cut at 2",), ()]
    finished = [finish(f"r{index}", 13) for index in range(3)]
    noted = [
        replace(event, result=replace(event.result, notes=notes)) for event, notes in zip(finished, rows, strict=True)
    ]
    lines = summary([*opening, *noted, ended(done=3, with_notes=2)])
    assert lines[1] == "✓ 3 done, 2 with notes in 5.0 s, 36/min"
    start = lines.index("  notes")
    assert lines[start + 1 : start + 3] == ["    in 2 rows: cut at 1", "    in 1 row: [red]dark␛[2J"]


def test_interrupted_run_says_so_and_what_was_not_run(opening: list[AnyEvent]) -> None:
    lines = summary([*opening, ended(exit_code=130, cancelled=1, not_run=2, reason="interrupted\x07")])
    assert lines[1:3] == ["✗ 0 done, 1 cancelled, 2 not run in 5.0 s", "  interrupted␇"]


@pytest.mark.parametrize("width", [20, 40, 140])
def test_summary_fits(width: int, opening: list[AnyEvent], finish: Callable[..., RequestFinished]) -> None:
    events = [*opening, finish("日本語" * 30, 13, "failed", "[red]x " * 50), ended(failed=1, exit_code=1)]
    console = Console(width=width)
    assert all(console.measure(line).maximum <= width for line in summary(events, width))


def test_terminal_shows_frames_then_lines_then_summary_and_gets_its_cursor_back(
    terminal: Any, opening: list[AnyEvent], middle: list[AnyEvent], closing: list[AnyEvent]
) -> None:
    with open_view("rich", stream=terminal.stream, environ={"NO_COLOR": "1"}, clock=lambda: 16) as observe:
        for event in opening + middle:
            observe(event)
        observe(Note(at=16, level="warning", text="[red]restarted[/red]\x1b[2J"))
        wait_for(lambda: "▶ forward c" in terminal.shown())
        for event in closing:
            observe(event)
    terminal.hang_up()
    shown = terminal.shown()
    assert "! [red]restarted[/red]␛[2J" in shown
    assert "\x1b[2J" not in shown
    assert shown.index(HIDE_CURSOR) < shown.index("▶ forward c") < shown.rindex(SHOW_CURSOR)
    assert "✓ worker 0: DemoPipeline on cpu, float32, ready after 1.5 s" in shown
    clean = ESCAPE.sub("", shown)
    assert clean.index("✗ c: write_failed: out of memory") < clean.index("✗ 2 done, 1 failed")
    assert not re.search(r"\x1b\[[0-9;]*(3[0-7]|9[0-7]|38;)", shown)  # NO_COLOR


def test_terminal_in_colour(terminal: Any, opening: list[AnyEvent], closing: list[AnyEvent]) -> None:
    with open_view("rich", stream=terminal.stream, environ={"TERM": "xterm-256color"}) as observe:
        for event in opening + closing:
            observe(event)
    terminal.hang_up()
    assert re.search(r"\x1b\[31m✗ ", terminal.shown())


def test_a_terminal_that_hangs_up_does_not_stop_the_run(
    terminal: Any, opening: list[AnyEvent], middle: list[AnyEvent], closing: list[AnyEvent]
) -> None:
    with open_view("rich", stream=terminal.stream, environ={}) as observe:
        for event in opening:
            observe(event)
        wait_for(lambda: "omni-gen" in terminal.shown())
        terminal.hang_up()
        for event in middle + closing:
            observe(event)


def test_text_of_others_on_stderr_appears_above_the_live_part(
    terminal: Any, opening: list[AnyEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    with open_view("rich", environ={}) as observe:
        observe(opening[0])
        sys.stderr.write("a library warns [bold]\n")
    assert sys.stderr is terminal.stream
    terminal.hang_up()
    assert "a library warns [bold]\r\n" in terminal.shown()


def test_a_stream_that_is_no_terminal_gets_lines_and_summary_without_escapes(
    opening: list[AnyEvent], middle: list[AnyEvent], closing: list[AnyEvent]
) -> None:
    stream = io.StringIO()
    with open_view("rich", stream=stream, environ={}) as observe:
        for event in opening + middle + closing:
            observe(event)
    assert "\x1b" not in stream.getvalue()
    assert "✗ 2 done, 1 failed, 2 already done in 5.0 s, 24/min" in stream.getvalue()


def test_frames_follow_the_width_of_the_terminal(opening: list[AnyEvent], middle: list[AnyEvent]) -> None:
    console = Console(
        file=io.StringIO(), width=140, height=24, force_terminal=True, color_system=None, _environ={"TERM": "xterm"}
    )
    state = RunState(clock=lambda: 16)
    for event in opening + middle:
        state(event)
    view = LiveView(state, console)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue
    wait_for(lambda: "now" in shown())
    console.width = 40
    wide = len(shown())
    wait_for(lambda: "now" in shown()[wide:].partition("▶ c")[2])
    view.close()
    after = ESCAPE.sub("", shown()[wide:].partition("▶ c")[2]).split("\n")
    assert max(len(line.strip("\r")) for line in after) < 40
