"""Invalid outputs in a whole run: no file unless the user asked for it, and notes in the row."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import manifest_rows, omni_gen

PROMPTS = ("nan", "inf", "grey", "two")
RUNNER = ["--runner", "tests.runners:Invalid"]


def run(folder: Path, *flags: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Render one picture per prompt; return exit code, rows by id, and stderr."""
    prompts = folder / "prompts.jsonl"
    rows = [{"id": prompt, "prompt": prompt, "num_frames": 1, "seed": 200} for prompt in PROMPTS]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = omni_gen("run", prompts, "-o", folder / "out", *RUNNER, *flags, "--progress", "plain")
    return done.returncode, {row["id"]: row for row in manifest_rows(folder / "out")}, done.stderr


def files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "out").glob("*.png")}


@pytest.mark.parametrize(
    "flags", [(), ("--no-device-postprocess",), ("--executor", "inline")], ids=["levels", "floats", "inline"]
)
def test_a_non_finite_output_fails_and_the_others_are_written(flags: tuple[str, ...], tmp_path: Path) -> None:
    code, rows, shown = run(tmp_path, *flags)
    assert code == 1, shown
    assert files(tmp_path) == {"grey.png", "two.png"}
    for name, counts in (("nan", "1 NaN and 0 infinite"), ("inf", "0 NaN and 1 infinite")):
        assert rows[name]["status"] == "failed"
        assert rows[name]["error"]["kind"] == "non_finite_output"
        assert counts in rows[name]["error"]["message"]
    assert (rows["grey"]["status"], rows["grey"]["notes"]) == ("done", ["halved"])
    assert "grey: halved" in shown


@pytest.mark.parametrize("flags", [(), ("--no-device-postprocess",)], ids=["levels", "floats"])
def test_keep_invalid_writes_invalid_outputs_with_a_note(flags: tuple[str, ...], tmp_path: Path) -> None:
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


def test_fail_on_constant_fails_an_output_of_one_colour(tmp_path: Path) -> None:
    code, rows, shown = run(tmp_path, "--fail-on-constant")
    assert code == 1, shown
    assert rows["grey"]["error"]["kind"] == "constant_output"
    assert rows["two"]["status"] == "done"
    assert files(tmp_path) == {"two.png"}
