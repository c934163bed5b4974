"""Out of device memory in a whole run: every request is rendered, with a note in its row."""

import json
from pathlib import Path

from tests.cli.conftest import manifest_rows, omni_gen

HALVED = "out of device memory: a call of 2 samples was halved"

STILL = "still in force: out of device memory: calls of this size have at most 1 samples"


def test_a_batch_that_does_not_fit_is_halved_with_a_note_in_its_rows(tmp_path: Path) -> None:
    rows = [{"id": f"r{n}", "prompt": "a red circle", "num_frames": 1, "seed": n} for n in range(4)]
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    flags = ["--runner", "tests.cli.runners:OneAtATime", "--num-inference-steps", "2", "--progress", "plain"]
    done = omni_gen("run", prompts, "-o", tmp_path / "out", "--batch-size", "2", *flags)
    assert done.returncode == 0, done.stderr
    notes = {row["id"]: row["notes"] for row in manifest_rows(tmp_path / "out")}
    assert notes == {"r0": [HALVED], "r1": [HALVED], "r2": [STILL], "r3": [STILL]}, (
        "later calls start at the smaller size"
    )
    assert done.stderr.count(HALVED) == 2
    assert len({path.read_bytes() for path in (tmp_path / "out").glob("*.png")}) == 4, "each has its own seed"
