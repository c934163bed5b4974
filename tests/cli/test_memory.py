"""Out of device memory through a whole run: every request is made, and its row says what was done for it."""

import json
import subprocess
import sys
from pathlib import Path

HALVED = "out of device memory: a call of 2 samples was halved"

STILL = "still in force: out of device memory: calls of this size have at most 1 samples"


def test_a_batch_that_does_not_fit_is_halved_and_the_rows_say_so(tmp_path: Path) -> None:
    rows = [{"id": f"r{n}", "prompt": "a red circle", "num_frames": 1, "seed": n} for n in range(4)]
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = [sys.executable, "-m", "omni_cli", "run", str(prompts), "-o", str(tmp_path / "out"), "--batch-size", "2"]
    flags = ["--runner", "tests.cli.runners:OneAtATime", "--num-inference-steps", "2", "--progress", "plain"]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "out" / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    notes = {row["id"]: row["notes"] for row in map(json.loads, lines)}
    assert notes == {"r0": [HALVED], "r1": [HALVED], "r2": [STILL], "r3": [STILL]}, "small from the start, and said so"
    assert done.stderr.count(HALVED) == 2
    assert len({path.read_bytes() for path in (tmp_path / "out").glob("*.png")}) == 4, "each has its own seed"
