"""`omni-gen run -` as a service on a pipe: requests start as they arrive, and an invalid row fails alone."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Start, manifest_rows

NULL = ["--runner", "omni_cli.worker.null:NullRunner", "--progress", "json", "--print", "json"]
StartStream = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start_stream(start: Start, tmp_path: Path) -> StartStream:
    """Return a function that starts `run -` with these flags."""
    return lambda *args: start("run", "-", "-o", tmp_path / "out", *NULL, *args)


def ask(process: "subprocess.Popen[str]", **request: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"prompt": "x", "num_frames": 1, **request}) + "\n")
    process.stdin.flush()


def answer(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    row: dict[str, Any] = json.loads(process.stdout.readline())
    return row


def wait_for(process: "subprocess.Popen[str]", event: str) -> None:
    assert process.stderr is not None
    while json.loads(process.stderr.readline())["event"] != event:
        pass


def end(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_each_request_is_answered_before_the_next_is_sent(start_stream: StartStream, tmp_path: Path) -> None:
    process = start_stream()
    wait_for(process, "run_started")
    for number in range(3):
        ask(process, id=f"r{number}")
        row = answer(process)
        assert (row["id"], row["status"]) == (f"r{number}", "done")
        assert (tmp_path / "out" / f"r{number}.png").is_file()
    assert end(process)[0] == 0


def test_an_invalid_row_is_reported_at_once_and_the_others_are_rendered(
    start_stream: StartStream, tmp_path: Path
) -> None:
    process = start_stream()
    wait_for(process, "run_started")
    ask(process, id="good")
    assert answer(process)["status"] == "done"
    ask(process, id="good")  # an id in use: the row of the first one stays
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
    rows = manifest_rows(tmp_path / "out")
    assert {row["id"]: row["status"] for row in rows} == {"good": "done", "late": "done"}


def test_ctrl_c_ends_the_wait_and_keeps_finished_rows(start_stream: StartStream, tmp_path: Path) -> None:
    process = start_stream()
    wait_for(process, "run_started")
    ask(process, id="one")
    assert answer(process)["status"] == "done"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130  # although its input is still open
    assert (tmp_path / "out" / "one.png").is_file()


def test_fail_fast_ends_a_run_whose_input_is_silent(start_stream: StartStream) -> None:
    process = start_stream("--fail-fast", "--fail-on-constant")
    wait_for(process, "run_started")
    ask(process, id="grey")
    assert answer(process)["status"] == "failed"
    process.wait(timeout=60)  # although its input is still open
    assert process.returncode == 1


def test_a_pipe_that_ends_at_once_is_validated_as_a_whole(start_stream: StartStream, tmp_path: Path) -> None:
    process = start_stream()
    assert process.stdin is not None
    process.stdin.write('{"prompt": "good"}\n{"prompt": 3}\n')
    code, _, err = end(process)
    assert code == 2
    assert "<stdin>:2" in err
    assert not (tmp_path / "out").exists()
