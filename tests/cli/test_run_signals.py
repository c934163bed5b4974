"""Stop signals of `omni-gen run` as a process: which count, what they cost, and what is said about it."""

import json
import os
import pty
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import IO, Any

import pytest

from tests.cli.conftest import COMMAND, Start, manifest_rows, omni_gen

NULL = ["--runner", "omni_cli.worker.null:NullRunner"]
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def write_prompts(path: Path, *seconds: float, steps: int = 1) -> Path:
    """Write a request per duration: r0, r1, ..."""
    rows = [
        {"id": f"r{n}", "prompt": "x", "num_frames": 1, "num_inference_steps": steps, "extra": {"forward_seconds": s}}
        for n, s in enumerate(seconds)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def wait_for_line(stream: IO[str] | None, part: str, count: int = 1) -> str:
    """Read up to the line that is the `count`th with `part` in it, and return it."""
    assert stream is not None
    for line in stream:
        count -= part in line
        if count == 0:
            return line
    raise AssertionError(f"no line with {part!r}")


def wait_for_lines(stream: IO[str] | None, *parts: str) -> None:
    """Read until each of `parts` was in some line."""
    missing = set(parts)
    while missing:
        line = wait_for_line(stream, "")
        missing -= {part for part in missing if part in line}


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("number", SIGNALS)
def test_each_stop_signal_keeps_what_is_computed(start: Start, tmp_path: Path, number: int) -> None:
    prompts, out = write_prompts(tmp_path / "p.jsonl", 0.0, 1.0, 1.0, 1.0, 1.0), tmp_path / "out"
    run = start("run", prompts, "-o", out, *NULL, "--progress", "json")
    wait_for_line(run.stderr, "forward_started", 2)
    run.send_signal(number)
    _, stderr = run.communicate(timeout=60)
    assert run.returncode == 128 + number
    end = events(stderr)[-1]
    assert (end["event"], end["exit_code"], end["reason"]) == ("run_finished", 128 + number, None)
    assert {row["id"] for row in manifest_rows(out)} >= {"r0", "r1"}
    assert len(manifest_rows(out)) == end["done"] < 5
    assert omni_gen("run", prompts, "-o", out, *NULL, "--progress", "none").returncode == 0
    assert len(manifest_rows(out)) == 5


def test_a_terminal_that_closes_and_signals_twice_keeps_what_is_computed(tmp_path: Path) -> None:
    """The kernel and the shell both send SIGHUP when a terminal closes; stderr is gone as well."""
    prompts, out = write_prompts(tmp_path / "p.jsonl", 0.0, 1.0, 1.0, 1.0), tmp_path / "out"
    master, slave = pty.openpty()
    command = [*COMMAND, "run", str(prompts), "-o", str(out), *NULL, "--progress", "json"]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True) as run:
        os.close(slave)
        shown = b""
        while shown.count(b"forward_started") < 2:
            shown += os.read(master, 1 << 16)
        os.close(master)
        for _ in range(3):
            run.send_signal(signal.SIGHUP)
            time.sleep(0.05)
        assert run.wait(timeout=60) == 129
    assert {row["id"] for row in manifest_rows(out)} >= {"r0", "r1"}


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_was_inherited_as_ignored_stays_ignored(tmp_path: Path, number: int) -> None:
    """A script's background jobs ignore SIGINT, `nohup` makes a program ignore SIGHUP."""
    prompts, out = write_prompts(tmp_path / "p.jsonl", 0.0, 0.5, 0.5), tmp_path / "out"
    command = [*COMMAND, "run", str(prompts), "-o", str(out), *NULL, "--progress", "json"]
    before = signal.signal(number, signal.SIG_IGN)
    try:
        run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, bufsize=1)
    finally:
        signal.signal(number, before)
    with run:
        wait_for_line(run.stderr, "forward_started")
        run.send_signal(number)
        _, stderr = run.communicate(timeout=60)
    assert run.returncode == 0
    assert "run_stopping" not in stderr
    assert len(manifest_rows(out)) == 3


def test_a_background_job_of_a_script_is_not_stopped_by_ctrl_c(tmp_path: Path) -> None:
    prompts, out = write_prompts(tmp_path / "p.jsonl", 0.0, 0.5, 0.5), tmp_path / "out"
    script = (
        'log=$1; shift; "$@" 2> "$log" & p=$!\n'
        'until grep -q forward_started "$log" 2> /dev/null; do sleep 0.05; done\n'
        "kill -INT $p; wait $p"
    )
    command = [*COMMAND, "run", str(prompts), "-o", str(out), *NULL, "--progress", "json"]
    job = subprocess.run(["sh", "-c", script, "sh", str(tmp_path / "log"), *command], timeout=120, check=False)
    assert job.returncode == 0
    assert len(manifest_rows(out)) == 3


def test_a_stop_says_how_long_it_takes_and_shows_no_eta(start: Start, tmp_path: Path) -> None:
    prompts, out = write_prompts(tmp_path / "p.jsonl", *[1.5] * 6), tmp_path / "out"
    run = start("run", prompts, "-o", out, *NULL, "--progress", "plain")
    wait_for_line(run.stderr, "1/6 done")
    run.send_signal(signal.SIGTERM)
    _, stderr = run.communicate(timeout=60)
    (stopping,) = [line for line in stderr.splitlines() if "stopping" in line]
    said = re.fullmatch(
        r"omni-gen: warning: stopping: finishes what runs, at most about (\d\.\d s|\d+ ms);"
        r" Ctrl-C again stops at once",
        stopping,
    )
    assert said is not None, stopping
    assert "ETA" not in stderr[stderr.index("stopping") :]
    assert run.returncode == 143


def test_a_stop_before_the_first_result_has_neither_rate_nor_eta_of_cancelled_requests(
    start: Start, tmp_path: Path
) -> None:
    prompts, out = write_prompts(tmp_path / "p.jsonl", *[6.0] * 3), tmp_path / "out"
    run = start("run", prompts, "-o", out, *NULL, "--progress", "plain")
    wait_for_line(run.stderr, "ready after")
    time.sleep(1)
    run.send_signal(signal.SIGTERM)
    _, stderr = run.communicate(timeout=60)
    assert "omni-gen: 0/3 done, 2 cancelled\n" in stderr
    assert "ETA" not in stderr
    assert "1 done, 2 cancelled" in stderr


@pytest.mark.parametrize(
    ("flags", "steps", "bounds"),
    [
        (["--forward-timeout", "40"], 1, (35.0, 40.0)),
        (["--stop-timeout", "1"], 1, (1.0, 1.0)),
        (["--stop-timeout", "1", "--forward-timeout", "40"], 1, (1.0, 1.0)),
        ([], 30, (20.0, 40.0)),
    ],
)
def test_the_bound_comes_from_time_outs_and_steps(
    start: Start, tmp_path: Path, flags: list[str], steps: int, bounds: tuple[float, float]
) -> None:
    prompts = write_prompts(tmp_path / "p.jsonl", 30.0, steps=steps)
    run = start("run", prompts, "-o", tmp_path / "out", *NULL, "--progress", "json", *flags)
    wait_for_line(run.stderr, "forward_started" if steps == 1 else "forward_step")
    run.send_signal(signal.SIGINT)
    stopping = json.loads(wait_for_line(run.stderr, "run_stopping"))
    assert bounds[0] <= stopping["seconds"] <= bounds[1]
    assert stopping["is_limit"] == ("--stop-timeout" in flags)


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGTERM, "1"), (signal.SIGHUP, "2")])
def test_stop_timeout_kills_what_still_runs_and_keeps_finished_rows(
    start: Start, tmp_path: Path, number: int, workers: str
) -> None:
    prompts, out = write_prompts(tmp_path / "p.jsonl", 0.0, 60.0, 60.0, 60.0), tmp_path / "out"
    run = start("run", prompts, "-o", out, *NULL, "--progress", "json", "--stop-timeout", "0.5", "--workers", workers)
    wait_for_lines(run.stderr, '"forward_started"', '"r1"', "request_finished")
    sent = time.monotonic()
    run.send_signal(number)
    _, stderr = run.communicate(timeout=60)
    assert time.monotonic() - sent < 10
    assert run.returncode == 128 + number
    end = events(stderr)[-1]
    assert (end["event"], end["exit_code"], end["done"], end["failed"]) == ("run_finished", 128 + number, 1, 0)
    assert [(row["id"], row["status"]) for row in manifest_rows(out)] == [("r0", "done")]
    assert sorted(path.name for path in out.iterdir()) == ["manifest.jsonl", "r0.png"]


def test_stop_timeout_ends_a_process_that_cannot_be_stopped_otherwise(start: Start, tmp_path: Path) -> None:
    """The inline executor has no worker to kill: its forward runs in the process itself."""
    prompts, out = write_prompts(tmp_path / "p.jsonl", 0.0, 60.0), tmp_path / "out"
    run = start("run", prompts, "-o", out, *NULL, "--executor", "inline", "--progress", "json", "--stop-timeout", "0.2")
    wait_for_line(run.stderr, "forward_started", 2)
    run.send_signal(signal.SIGTERM)
    assert run.wait(timeout=20) == 143
    assert [row["id"] for row in manifest_rows(out)] == ["r0"]


def test_a_forward_that_is_killed_during_a_stop_is_not_run_again(start: Start, tmp_path: Path) -> None:
    prompts, out = write_prompts(tmp_path / "p.jsonl", 120.0, 0.0), tmp_path / "out"
    run = start("run", prompts, "-o", out, *NULL, "--progress", "json", "--forward-timeout", "3")
    wait_for_line(run.stderr, "forward_started")
    run.send_signal(signal.SIGTERM)
    _, stderr = run.communicate(timeout=60)
    assert run.returncode == 143
    assert "forward_started" not in [event["event"] for event in events(stderr)]
    end = events(stderr)[-1]
    assert (end["done"], end["failed"], end["cancelled"] + end["not_run"]) == (0, 0, 2)
    assert manifest_rows(out) == []


def test_a_stop_that_ends_in_time_is_not_cut_short(start: Start, tmp_path: Path) -> None:
    prompts, out = write_prompts(tmp_path / "p.jsonl", 1.0, 1.0, 1.0), tmp_path / "out"
    run = start("run", prompts, "-o", out, *NULL, "--progress", "json", "--stop-timeout", "60")
    wait_for_line(run.stderr, "forward_started")
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=30)
    assert run.returncode == 143
    assert manifest_rows(out)


def test_a_signal_after_a_failed_request_has_the_exit_code_of_the_signal(start: Start, tmp_path: Path) -> None:
    prompts, out = tmp_path / "p.jsonl", tmp_path / "out"
    texts = ["fail", *["x"] * 6]
    prompts.write_text(
        "".join(
            json.dumps({"id": f"r{n}", "prompt": text, "num_frames": 1, "extra": {"forward_seconds": min(n, 1.0)}})
            + "\n"
            for n, text in enumerate(texts)
        )
    )
    run = start("run", prompts, "-o", out, "--runner", "tests.runners:Picky", "--progress", "json")
    wait_for_line(run.stderr, "request_finished")
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=60)
    assert run.returncode == 143


def test_suspended_run_goes_on_where_it_was(start: Start, tmp_path: Path) -> None:
    """Parent and worker are stopped for longer than a forward may take, as by a job scheduler."""
    prompts, out = write_prompts(tmp_path / "p.jsonl", 2.0, 0.0), tmp_path / "out"
    run = start("run", prompts, "-o", out, *NULL, "--progress", "json", "--forward-timeout", "4")
    wait_for_line(run.stderr, "forward_started")
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    pids = [run.pid, *map(int, children)]
    for number, pause in ((signal.SIGSTOP, 12.0), (signal.SIGCONT, 0.0)):
        for pid in pids:
            os.kill(pid, number)
        time.sleep(pause)
    _, stderr = run.communicate(timeout=60)
    assert run.returncode == 0, stderr
    assert [(row["id"], row["attempts"]) for row in manifest_rows(out)] == [("r0", 1), ("r1", 1)]
