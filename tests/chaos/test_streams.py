"""Whoever reads a run's stdout or stderr may leave: the run goes on to its end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.folder import check, requests
from tests.chaos.run import NULL, PATIENCE_S


@pytest.mark.parametrize("stream", ["stdout", "both"])
def test_a_reader_that_leaves_does_not_end_the_run(stream: str, tmp_path: Path) -> None:
    wanted = requests(6)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps(row) + "\n" for row in wanted), encoding="utf-8")
    reader, writer = os.pipe()
    gone = {name: writer for name in ("stdout", "stderr") if stream in (name, "both")}
    kept = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    command = [sys.executable, "-m", "omni_cli", "run", str(prompts), "-o", str(tmp_path / "out"), "--runner", NULL]
    flags = ["--print", "paths", "--progress", "plain"]
    with subprocess.Popen([*command, *flags], **{**kept, **gone}) as run:  # type: ignore[call-overload]
        os.close(writer)
        os.close(reader)  # before a word is said: each is met with SIGPIPE, which ends most programs
        assert run.wait(PATIENCE_S) == 0
    check(tmp_path / "out", wanted)
