"""`omni-gen run --dry-run`: data on stdout, a summary for people on stderr, and no output folder."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from omni_cli.api.plan_report import AnyPlanLine, PlanTotals
from omni_cli.cli.dry_run import show_plan
from omni_cli.config import EngineConfig, OutputConfig, RunConfig
from omni_cli.prompts.prompt_source import PromptSource
from tests.cli.conftest import omni_gen


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The output folder of the plan, which is not created."""
    return tmp_path / "out"


@pytest.fixture
def show(tmp_path: Path, out: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """Show the plan of two requests, of which one names a model with control characters; return stdout and stderr."""
    prompts = tmp_path / "p.jsonl"
    rows = [{"id": "a"}, {"id": "b", "model": "\u202eevil[red]"}]
    prompts.write_text("".join(json.dumps({"prompt": "x", "seed": 1, "num_frames": 1, **row}) + "\n" for row in rows))
    engine = EngineConfig(executor="inline", runner="omni_cli.worker.null:NullRunner")

    def show(data: Any) -> tuple[str, str]:
        config = RunConfig(engine=engine, output=OutputConfig(output_dir=str(out)))
        assert show_plan(PromptSource(str(prompts), config.defaults), config, data) == 0
        return capfd.readouterr()

    yield show
    assert not out.exists()


def test_without_print_the_summary_is_on_stderr_and_stdout_is_empty(show: Any, out: Path) -> None:
    stdout, stderr = show(None)
    assert stdout == ""
    assert "plan: 2 of 2 requests to render, 0 already done" in stderr
    assert "2 model loads" in stderr
    assert f"{out}/a.png" in stderr
    assert stderr.endswith("nothing was rendered\n")
    assert "\u202e" not in stderr


def test_print_paths_writes_one_path_per_line(show: Any, out: Path) -> None:
    stdout, stderr = show("paths")
    assert stdout.splitlines() == [f"{out}/a.png", f"{out}/b.png"]
    assert "plan: 2 of 2" in stderr


def test_print_json_writes_every_line_of_the_plan(show: Any) -> None:
    stdout, stderr = show("json")
    assert [json.loads(line)["plan"] for line in stdout.splitlines()] == [
        "request", "request", "model", "model", "group", "group", "totals",
    ]  # fmt: skip
    assert stderr == ""
    decoded = [msgspec.json.decode(line, type=AnyPlanLine) for line in stdout.splitlines()]
    assert isinstance(decoded[-1], PlanTotals)


def test_plan_shows_what_a_config_file_makes_of_each_row(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("a {red|blue} circle\n")
    (tmp_path / "c.yaml").write_text("matrix: [seed=1..2, guidance_scale=3]\nexpand: all\nprogress: none\n")
    runner = ["--executor", "inline", "--runner", "omni_cli.worker.null:NullRunner"]
    command = ["run", "p.txt", "--dry-run", "--print", "json", "--config", "c.yaml", "--limit", "3", *runner]
    result = omni_gen(*command, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    plan = [json.loads(line) for line in result.stdout.splitlines()]
    shown = [(line["index"], line["seeds"]) for line in plan if line["plan"] == "request"]
    assert shown == [(0, [1]), (1, [2]), (2, [1])]
    assert len({line["id"] for line in plan if line["plan"] == "request"}) == 3
