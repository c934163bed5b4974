"""The choice of the view, and the data of `--print` on stdout."""

import io
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from omni_cli.config import ProgressMode
from omni_cli.events import AnyEvent, RequestFinished, RunStarted
from omni_cli.request import Result
from omni_cli.view import open_view
from omni_cli.view.open import resolve_mode
from omni_cli.view.safe_stream import SafeStream
from tests.disks import fill, small_disk

Finish = Callable[..., RequestFinished]
STARTED = RunStarted(at=1, total=9, skipped=0, model="demo", output_dir="/data/out")


@pytest.mark.parametrize(
    ("mode", "environ", "chosen"),
    [
        ("auto", {"TERM": "xterm"}, "rich"),
        ("auto", {"TERM": "xterm", "CI": "false", "NO_COLOR": "1"}, "rich"),
        ("auto", {"TERM": "xterm", "CI": "1"}, "plain"),
        ("auto", {"TERM": "dumb"}, "plain"),
        ("auto", {}, "plain"),
        ("rich", {"CI": "1"}, "rich"),
        ("json", {"TERM": "xterm"}, "json"),
        ("none", {"TERM": "xterm"}, "none"),
    ],
)
def test_auto_mode_depends_on_terminal_and_environment(
    terminal: Any, mode: ProgressMode, environ: Mapping[str, str], chosen: str
) -> None:
    assert resolve_mode(mode, SafeStream(terminal.stream), environ) == chosen


def test_auto_is_plain_without_a_terminal() -> None:
    assert resolve_mode("auto", SafeStream(io.StringIO()), {"TERM": "xterm"}) == "plain"


def test_none_shows_nothing(opening: list[AnyEvent], closing: list[AnyEvent]) -> None:
    stream, stdout = io.StringIO(), io.StringIO()
    with open_view("none", stream=stream, stdout=stdout) as observe:
        for event in opening + closing:
            observe(event)
    assert (stream.getvalue(), stdout.getvalue()) == ("", "")


def printed(data: Any, *events: AnyEvent) -> bytes:
    read, write = os.pipe()
    with os.fdopen(write, "w") as stdout, open_view("none", stream=io.StringIO(), stdout=stdout, data=data) as observe:
        for event in events:
            observe(event)
    with os.fdopen(read, "rb") as file:
        return file.read()


def test_print_paths_gives_the_files_of_done_requests(finish: Finish) -> None:
    shown = printed(
        "paths", STARTED, finish("a", 2, files=("a_0.png", "sub/a_1.png")), finish("b", 3, "failed"), finish("猫", 4)
    )
    assert shown.decode() == "/data/out/a_0.png\n/data/out/sub/a_1.png\n/data/out/猫.png\n"


def test_print_paths_gives_the_bytes_of_a_path_that_is_not_utf8(finish: Finish) -> None:
    folder = os.fsdecode(b"caf\xe9")
    started = RunStarted(at=1, total=1, skipped=0, model="demo", output_dir=folder)
    assert printed("paths", started, finish("a", 2)) == b"caf\xe9/a.png\n"


def test_print_json_gives_the_rows_of_all_finished_requests(finish: Finish) -> None:
    events = [finish("a", 2), finish("b", 3, "failed", "line\nbreak"), finish("c", 4, "cancelled")]
    rows = printed("json", STARTED, *events).splitlines()
    assert [msgspec.json.decode(row, type=Result) for row in rows] == [event.result for event in events]


def test_a_closed_stdout_ends_printing_with_one_note_but_not_the_run(finish: Finish) -> None:
    read, write = os.pipe()
    os.close(read)
    stream = io.StringIO()
    with (
        os.fdopen(write, "w") as stdout,
        open_view("plain", stream=stream, stdout=stdout, environ={}, data="paths") as observe,
    ):
        observe(STARTED)
        for n in range(50):
            observe(finish(f"r{n}", 2))
    assert stream.getvalue().count("stdout cannot be written any more: Broken pipe (EPIPE); printing stops") == 1


def test_a_full_disk_under_stdout_ends_the_printing_with_its_reason(finish: Finish, tmp_path: Path) -> None:
    stream = io.StringIO()
    with small_disk(tmp_path / "disk") as disk:
        stdout = (disk / "paths.txt").open("w")
        fill(disk)
        with open_view("plain", stream=stream, stdout=stdout, environ={}, data="json") as observe:
            observe(STARTED)
            for n in range(50):
                observe(finish(f"r{n}", 2))
        stdout.close()
    assert stream.getvalue().count("stdout cannot be written any more: No space left on device (ENOSPC)") == 1


def test_reader_that_does_not_read_holds_up_nobody(finish: Finish) -> None:
    read, write = os.pipe()
    received = bytearray()

    def drain() -> None:
        while chunk := os.read(read, 1 << 16):
            received.extend(chunk)

    reader = threading.Thread(target=drain)
    with (
        os.fdopen(write, "w") as stdout,
        open_view("none", stream=io.StringIO(), stdout=stdout, data="paths") as observe,
    ):
        observe(STARTED)
        for n in range(20_000):  # several times what a pipe holds
            observe(finish(f"r{n}", 2))
        reader.start()
    reader.join()
    os.close(read)
    assert received.count(b"\n") == 20_000


def test_data_on_the_terminal_of_the_live_view_has_lines_of_its_own(terminal: Any, finish: Finish) -> None:
    with open_view("rich", stream=terminal.stream, stdout=terminal.stream, environ={}, data="paths") as observe:
        observe(STARTED)
        observe(finish("[bold]" + "x" * 100, 2))
    terminal.hang_up()
    assert f"/data/out/[bold]{'x' * 100}.png\r\n" in terminal.shown()


def test_events_from_many_threads_all_arrive(finish: Finish) -> None:
    stream, stdout = io.StringIO(), io.StringIO()
    with open_view("json", stream=stream, stdout=stdout, data="paths") as observe:
        observe(STARTED)
        threads = [
            threading.Thread(target=lambda k=k: [observe(finish(f"{k}-{n}", n)) for n in range(200)]) for k in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(stdout.getvalue().splitlines())) == 800
    assert len(stream.getvalue().splitlines()) == 802
