"""Runs on a device that is late: the bytes of every mode are those of the CPU."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import manifest_rows
from tests.lag.conftest import Python, python_with

ROWS = [
    {"id": "still", "prompt": "a red circle", "num_frames": 1, "seed": 1},
    {"id": "pair", "prompt": "a green triangle", "num_frames": 1, "num_outputs": 2, "seed": 3},
    {"id": "long", "prompt": "a white circle moving up", "num_frames": 17, "seed": 5},
]
SMALL = ("--dtype", "float32", "--height", "32", "--width", "32", "--num-inference-steps", "1")


class Runs:
    """Runs of one prompt file, each into a folder of its own."""

    def __init__(self, python: Python, folder: Path, rows: list[dict[str, Any]]) -> None:
        self.python = python
        self.folder = folder
        self.prompts = folder / "prompts.jsonl"
        self.prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def files(self, *flags: str, format_: str = "npy", **variables: Any) -> dict[str, bytes]:
        """The bytes of every output of a run with these flags that ends well."""
        out = self.folder / f"out-{len(list(self.folder.iterdir()))}"
        arguments = ("run", self.prompts, "-o", out, *SMALL, "--format", format_, "--no-metadata", *flags)
        result = self.python("-m", "omni_cli", *arguments, **variables)
        assert result.returncode == 0, result.stderr
        self.rows, self.stderr = manifest_rows(out), result.stderr
        if "--no-device-postprocess" in flags:  # floats, which round to the levels
            for path in out.glob("*.npy"):
                np.save(path, np.round(np.load(path) * 255).astype(np.uint8))
        return {path.name: path.read_bytes() for path in sorted(out.glob(f"*.{format_}"))}


@pytest.fixture(scope="module")
def cpu_files(tmp_path_factory: pytest.TempPathFactory, lag_path: Path) -> dict[str, bytes]:
    return Runs(python_with(lag_path), tmp_path_factory.mktemp("cpu"), ROWS).files("--device", "cpu")


MODES = {
    "two workers, step by step": ("--workers", "2", "--step-execution", "--preview-every", "1"),
    "no-async, float transport": ("--no-async", "--no-device-postprocess"),
    "pure step": ("--step-execution", "--no-async"),
}


@pytest.mark.parametrize("flags", MODES.values(), ids=MODES)
def test_every_mode_makes_the_bytes_of_the_cpu(
    python: Python, tmp_path: Path, cpu_files: dict[str, bytes], flags: tuple[str, ...]
) -> None:
    runs = Runs(python, tmp_path, ROWS)
    assert runs.files("--device", "lag", *flags, LAG_DELAY_US=100 if "2" in flags else 20) == cpu_files
    assert len(cpu_files) == 4
    # Of two workers, the first to be ready may do all the work.
    assert {row["made"]["device"] for row in runs.rows} <= {"lag:0", "lag:1"}


def test_a_video_that_is_encoded_while_it_is_decoded_is_the_same_file(python: Python, tmp_path: Path) -> None:
    runs = Runs(python, tmp_path, [{**ROWS[2], "height": 160, "width": 160}])
    whole = runs.files("--device", "cpu", "--no-chunked-decode", format_="mp4")
    assert runs.files("--device", "lag", "--max-inflight-bytes", "1M", LAG_DELAY_US=5, format_="mp4") == whole


@pytest.mark.parametrize("variables", [{}, {"LAG_FAIL_SIDE": 1}], ids=["in a forward", "while an output is copied"])
def test_a_device_that_breaks_restarts_its_worker_and_costs_no_request(
    python: Python, tmp_path: Path, cpu_files: dict[str, bytes], variables: dict[str, int]
) -> None:
    runs = Runs(python, tmp_path, ROWS)
    once = tmp_path / "once"
    once.touch()
    count = 5 if variables else 800
    assert runs.files("--device", "lag", LAG_FAIL_ONCE=f"{once}:{count}", **variables) == cpu_files
    assert not once.exists()
    assert "starting it again" in runs.stderr
    assert max(row["attempts"] for row in runs.rows) == 2
