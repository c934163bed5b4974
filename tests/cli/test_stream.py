"""`omni-gen run -` as a render service for a pipe: requests start as they come, mistakes cost only themselves."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NULL = ["--runner", "omni_cli.worker.null:NullRunner", "--progress", "json", "--print", "json"]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `run -` in the background; what is left of it ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(*args: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "omni_cli", "run", "-", "-o", str(tmp_path / "out"), *NULL, *args]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        with process:
            pass


def ask(process: "subprocess.Popen[str]", **request: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"prompt": "x", "num_frames": 1, **request}) + "\n")
    process.stdin.flush()


def answer(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def wait_for(process: "subprocess.Popen[str]", event: str) -> None:
    assert process.stderr is not None
    while json.loads(process.stderr.readline())["event"] != event:
        pass


def end(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_each_request_is_answered_before_the_next_is_asked(start: Start, tmp_path: Path) -> None:
    process = start()
    wait_for(process, "run_started")
    for number in range(3):
        ask(process, id=f"r{number}")
        row = answer(process)
        assert (row["id"], row["status"]) == (f"r{number}", "done")
        assert (tmp_path / "out" / f"r{number}.png").is_file()
    assert end(process)[0] == 0


def test_a_row_with_a_mistake_is_told_at_once_and_the_rest_go_on(start: Start, tmp_path: Path) -> None:
    process = start()
    wait_for(process, "run_started")
    ask(process, id="good")
    assert answer(process)["status"] == "done"
    ask(process, id="good")  # an id that is taken: the row of the first one stays
    row = answer(process)
    assert (row["id"], row["status"], row["error"]["kind"]) == ("good", "failed", "invalid_request")
    assert "<stdin>:2" in row["error"]["message"]
    ask(process, id="typo", widht=3)
    ask(process, id="late")
    assert answer(process)["id"] == "late"
    code, _, err = end(process)
    assert code == 1
    notes = [event["text"] for line in err.splitlines() if (event := json.loads(line))["event"] == "note"]
    assert any("<stdin>:3" in text and 'did you mean "width"' in text for text in notes)
    last = json.loads(err.splitlines()[-1])
    assert (last["done"], last["failed"], last["exit_code"]) == (2, 2, 1)
    rows = [json.loads(line) for line in (tmp_path / "out" / "manifest.jsonl").read_text().splitlines()]
    assert {row["id"]: row["status"] for row in rows} == {"good": "done", "late": "done"}


def test_ctrl_c_ends_the_waiting_and_keeps_what_is_done(start: Start, tmp_path: Path) -> None:
    process = start()
    wait_for(process, "run_started")
    ask(process, id="one")
    assert answer(process)["status"] == "done"
    process.send_signal(signal.SIGINT)
    assert end(process)[0] == 130
    assert (tmp_path / "out" / "one.png").is_file()


def test_fail_fast_ends_a_stream_that_is_silent(start: Start) -> None:
    process = start("--fail-fast", "--fail-on-constant")
    wait_for(process, "run_started")
    ask(process, id="grey")
    assert answer(process)["status"] == "failed"
    process.wait(timeout=60)  # although nobody has closed its input
    assert process.returncode == 1


def test_a_pipe_that_ends_at_once_is_judged_whole_as_a_file_is(start: Start, tmp_path: Path) -> None:
    process = start()
    assert process.stdin is not None
    process.stdin.write('{"prompt": "good"}\n{"prompt": 3}\n')
    code, _, err = end(process)
    assert code == 2
    assert "<stdin>:2" in err
    assert not (tmp_path / "out").exists()
