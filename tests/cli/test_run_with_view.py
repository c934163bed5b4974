"""A trace or log that cannot be written does not change the exit code of a run."""

import json
from pathlib import Path

import pytest

from omni_cli.cli.run_with_view import run_with_view
from omni_cli.config import EngineConfig, OutputConfig, RunConfig
from omni_cli.errors import UsageError
from omni_cli.prompts.prompt_source import PromptSource
from tests.disks import fill, small_disk


def run(tmp_path: Path, trace: Path | None = None, log: Path | None = None) -> int:
    prompts = tmp_path / "p.jsonl"
    prompts.write_text(json.dumps({"id": "a", "prompt": "x", "num_frames": 1}) + "\n")
    engine = EngineConfig(executor="inline", runner="omni_cli.worker.null:NullRunner")
    config = RunConfig(engine=engine, output=OutputConfig(output_dir=str(tmp_path / "out")))
    return run_with_view(PromptSource(str(prompts), config.defaults), config, "none", None, trace, log)


def test_a_trace_and_a_log_without_room_leave_the_exit_code_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        fill(disk)
        trace = disk / "trace.json"
        assert run(tmp_path, trace, disk / "run.log") == 0
        assert {path.name for path in disk.iterdir()} == {"ballast", "run.log"}
    assert (tmp_path / "out" / "a.png").exists()
    text = f"omni-gen: --trace {trace}: cannot be written: No space left on device (ENOSPC)\n"
    assert capsys.readouterr().err == text


@pytest.mark.parametrize("name", ["none/trace.json", "."])
def test_a_trace_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"--trace .*: cannot be written: name a file in a folder that exists"):
        run(tmp_path, tmp_path / name)
    assert not (tmp_path / "out").exists()
