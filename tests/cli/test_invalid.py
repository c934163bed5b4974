"""Right or refused, through a whole run: no file of an output that is not right, unless it was asked for; notes in the row."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

PROMPTS = ("nan", "inf", "grey", "two")
RUNNER = ["--runner", "tests.runners:Invalid"]


def run(folder: Path, *flags: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Exit code, rows by id, and what was shown, of one picture per prompt."""
    prompts = folder / "prompts.jsonl"
    rows = [{"id": prompt, "prompt": prompt, "num_frames": 1, "seed": 200} for prompt in PROMPTS]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = [sys.executable, "-m", "omni_cli", "run", str(prompts), "-o", str(folder / "out"), *RUNNER, *flags]
    done = subprocess.run([*command, "--progress", "plain"], capture_output=True, text=True, timeout=300, check=False)
    lines = (folder / "out" / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    return done.returncode, {row["id"]: row for row in map(json.loads, lines)}, done.stderr


def files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "out").glob("*.png")}


@pytest.mark.parametrize(
    "flags", [(), ("--no-device-postprocess",), ("--executor", "inline")], ids=["levels", "floats", "inline"]
)
def test_an_output_that_is_not_finite_is_refused_and_the_others_are_written(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    code, rows, shown = run(tmp_path, *flags)
    assert code == 1, shown
    assert files(tmp_path) == {"grey.png", "two.png"}
    for name, found in (("nan", "1 NaN and 0 infinite"), ("inf", "0 NaN and 1 infinite")):
        assert rows[name]["status"] == "failed"
        assert rows[name]["error"]["kind"] == "non_finite_output"
        assert found in rows[name]["error"]["message"]
    assert (rows["grey"]["status"], rows["grey"]["notes"]) == ("done", ["halved"])
    assert "grey: halved" in shown


@pytest.mark.parametrize("flags", [(), ("--no-device-postprocess",)], ids=["levels", "floats"])
def test_what_is_asked_for_all_the_same_is_written_with_a_note(flags: tuple[str, ...], tmp_path: Path) -> None:
    code, rows, shown = run(tmp_path, "--keep-invalid", "--fail-on-constant", *flags)
    assert code == 0, shown
    assert files(tmp_path) == {f"{name}.png" for name in PROMPTS}
    note = "kept, although the image output is not finite: 1 NaN and 0 infinite of 12288 values"
    assert rows["nan"]["notes"][1].startswith(note)
    assert f"nan: {note}" in shown
    assert rows["grey"]["notes"][1] == (
        "kept, although the image output is one colour in every pixel: sample 0 is (200, 200, 200)"
    )
    assert rows["two"]["notes"] == ["halved"]
    for name, level in (("nan", 0), ("inf", 255), ("two", 255), ("grey", 200)):
        with Image.open(tmp_path / "out" / f"{name}.png") as image:
            pixels = np.asarray(image)
        assert pixels[1, 1].tolist() == [level, 200, 200]
        assert (pixels[0] == 200).all()


def test_one_colour_is_refused_where_that_was_asked_for(tmp_path: Path) -> None:
    code, rows, shown = run(tmp_path, "--fail-on-constant")
    assert code == 1, shown
    assert rows["grey"]["error"]["kind"] == "constant_output"
    assert rows["two"]["status"] == "done"
    assert files(tmp_path) == {"two.png"}
