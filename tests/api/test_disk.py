"""Runs on disks that are too small, out of order, or gone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omni_cli.cli.perform import perform
from omni_cli.config import EngineConfig, OutputConfig, RunConfig
from omni_cli.errors import OutputFolderError
from tests.disks import small_disk

RAW = 64 * 64 * 3 + 128
NULL = EngineConfig(executor="inline", runner="omni_cli.worker.null:NullRunner")


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "manifest.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., int]:
    """run(folder, limit=..., engine=..., **output) renders six arrays of 12 KiB each; gives the exit code."""
    prompts = tmp_path / "p.jsonl"
    rows = [{"id": f"r{n}", "prompt": "x", "num_frames": 1, "format": "npy"} for n in range(6)]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(folder: Path, limit: int | None = None, engine: EngineConfig = NULL, **output: Any) -> int:
        config = RunConfig(engine=engine, output=OutputConfig(output_dir=str(folder), **output), limit=limit)
        return perform(str(prompts), config, "none", None, None, None)

    return run


def test_a_run_that_cannot_fit_is_refused_before_it_starts(run: Callable[..., int], tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "48k") as disk:
        least = f"6 files take at least {6 * (RAW + 1001) / 1024:.1f} KiB, "
        with pytest.raises(OutputFolderError, match=least):
            run(disk / "out", engine=EngineConfig(runner=EngineConfig().runner))
        with pytest.raises(OutputFolderError, match=least):
            run(disk / "out")
        assert (disk / "out" / "manifest.jsonl").read_text() == ""
        assert run(disk / "out", limit=1) == 0
        assert run(disk / "out", limit=2, disk_check=False) == 0


def test_a_resumed_run_needs_room_for_what_is_missing(run: Callable[..., int], tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "112k") as disk:
        assert run(disk / "out", limit=4) == 0
        assert run(disk / "out") == 0, "six would not have fitted beside the four"
        assert [row["status"] for row in rows_of(disk / "out")] == ["done"] * 6
