"""The plan of a run: it predicts what the run then does, and changes and loads nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from omni_cli.api.plan_report import AnyPlanLine, PlanGroup, PlanModel, PlanRequest, PlanTotals, plan_file
from omni_cli.api.run_file import run_file
from omni_cli.api.session import Session
from omni_cli.config import AUTO_BATCH_SIZE, EngineConfig, ModelConfig, OutputConfig, RunConfig
from omni_cli.errors import PromptFileError, UsageError
from omni_cli.events import AnyEvent, ForwardStarted, ModelReady
from omni_cli.models.weights import weight_bytes
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.trace import Timeline

NULL = "omni_cli.worker.null:NullRunner"


class Project:
    """A prompt file and an output folder, to plan and render in this process with a null runner."""

    def __init__(self, folder: Path) -> None:
        self.prompts = folder / "p.jsonl"
        self.out = folder / "out"

    def write(self, *rows: dict[str, Any]) -> None:
        self.prompts.write_text("".join(json.dumps({"prompt": "x", "seed": 1, **row}) + "\n" for row in rows))

    def config(self, *, runner: str = NULL, output: dict[str, Any] | None = None, **config: Any) -> RunConfig:
        engine = EngineConfig(executor="inline", runner=runner, **config.pop("engine", {}))
        return RunConfig(engine=engine, output=OutputConfig(output_dir=str(self.out), **(output or {})), **config)

    def plan(self, **config: Any) -> list[AnyPlanLine]:
        lines: list[AnyPlanLine] = []
        events: list[AnyEvent] = []
        with (
            PromptSource(str(self.prompts), self.config().defaults) as source,
            Session(self.config(**config), events.append, Timeline(), base=source.base, dry_run=True) as session,
        ):
            assert plan_file(session, source, lines.append) == lines[-1]
        assert not [event for event in events if isinstance(event, ModelReady | ForwardStarted)]
        return lines

    def run(self, **config: Any) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        with (
            PromptSource(str(self.prompts), self.config().defaults) as source,
            Session(self.config(**config), events.append, Timeline(), base=source.base) as session,
        ):
            run_file(session, source)
        return events


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def totals(lines: list[AnyPlanLine]) -> PlanTotals:
    assert isinstance(lines[-1], PlanTotals)
    return lines[-1]


MIXED = [
    {"id": f"r{n}", "model": model, "num_frames": 1, "height": height, "format": "npy"}
    for n, (model, height) in enumerate([("A", 64), ("B", 64), ("A", 32), ("A", 64), ("B", 64), ("A", 64)])
]


@pytest.mark.parametrize("engine", [{}, {"batch_size": 2}])
@pytest.mark.parametrize("lookahead", [0, 1000])
def test_the_counts_match_those_of_the_run(project: Project, engine: dict[str, Any], lookahead: int) -> None:
    project.write(*MIXED)
    before = sorted(project.out.parent.iterdir())
    lines = project.plan(engine=engine, lookahead=lookahead)
    assert sorted(project.out.parent.iterdir()) == before
    events = project.run(engine=engine, lookahead=lookahead)
    plan = totals(lines)
    assert (plan.requests, plan.render, plan.skip, plan.outputs, plan.reasons) == (6, 6, 0, 6, {"new": 6})
    assert plan.loads == len([event for event in events if isinstance(event, ModelReady)])
    forwards = [event.ids for event in events if isinstance(event, ForwardStarted)]
    assert plan.calls == len(forwards)
    planned = [line for line in lines if isinstance(line, PlanRequest)]
    assert [line.id for line in planned] == [id_ for ids in forwards for id_ in ids]
    assert sorted(path.name for path in project.out.glob("*.npy")) == sorted(f for line in planned for f in line.files)
    written = sum(path.stat().st_size for path in project.out.iterdir())
    assert 0.8 < plan.disk_bytes / written < 1.2
    assert totals(project.plan(engine=engine, lookahead=lookahead)).skip == 6


def test_groups_are_requests_of_one_model_adapter_and_shape(project: Project) -> None:
    project.write(*MIXED, {"id": "l", "model": "B", "lora": [{"path": "owner/lora", "weight": 0.5}], "num_frames": 1})
    groups = [line for line in project.plan() if isinstance(line, PlanGroup)]
    assert [(g.model, g.height, len(g.lora), g.requests, g.calls) for g in groups] == [
        ("A", 64, 0, 3, 3), ("A", 32, 0, 1, 1), ("B", 64, 0, 2, 2), ("B", 64, 1, 1, 1),
    ]  # fmt: skip
    assert groups[-1].lora[0].path == "owner/lora"
    assert {g.memory_bytes for g in groups} == {None}
    assert {g.num_inference_steps for g in groups} == {1}


def test_with_an_automatic_batch_size_the_number_of_calls_is_unknown(project: Project) -> None:
    project.write(*MIXED)
    lines = project.plan(engine={"batch_size": AUTO_BATCH_SIZE})
    assert totals(lines).calls is None
    assert {line.calls for line in lines if isinstance(line, PlanGroup)} == {None}


def test_the_least_memory_is_the_weights_and_the_decoded_outputs_of_the_largest_call(project: Project) -> None:
    project.write({"id": "a", "num_outputs": 3, "num_frames": 5})
    lines = project.plan()
    (model,) = [line for line in lines if isinstance(line, PlanModel)]
    (group,) = [line for line in lines if isinstance(line, PlanGroup)]
    assert model.weight_bytes == weight_bytes(ModelConfig(), None, "float32")
    assert model.weight_bytes is not None
    assert group.memory_bytes == model.weight_bytes + 3 * 5 * 64 * 64 * 3 * (4 + 1)


def test_every_request_has_a_reason(project: Project) -> None:
    rows = [{"id": id_, "num_frames": 1} for id_ in ("done", "changed", "gone", "failed")]
    project.write(*rows[:3], {**rows[3], "prompt": "nan"})
    project.run(runner="tests.runners:Invalid")
    (project.out / "gone.png").unlink()
    project.write(rows[0], {**rows[1], "seed": 2}, *rows[2:], {"id": "new", "num_frames": 1})
    state = {path: path.read_bytes() for path in project.out.iterdir()}
    with pytest.raises(UsageError, match=r'"changed": seed: 1 → 2'):
        project.plan()
    lines = project.plan(output={"changed": "replace"})
    assert {line.id: (line.reason, line.skip) for line in lines if isinstance(line, PlanRequest)} == {
        "done": ("done", True),
        "changed": ("changed", False),
        "gone": ("file_missing", False),
        "failed": ("failed", False),
        "new": ("new", False),
    }
    assert (totals(lines).render, totals(lines).skip) == (4, 1)
    assert {path: path.read_bytes() for path in project.out.iterdir()} == state
    assert totals(project.plan(output={"overwrite": True})).reasons == {"overwrite": 5}


def test_a_prompt_file_with_problems_is_refused(project: Project) -> None:
    project.write({"id": "a", "num_frames": 1}, {"id": "a", "num_frames": 1})
    with pytest.raises(PromptFileError, match="already the id of line 1"):
        project.plan()
    assert not project.out.exists()


def test_a_model_without_a_card_is_refused_and_not_loaded(project: Project) -> None:
    project.write({"id": "a", "num_frames": 1}, {"id": "b", "model": "B", "num_frames": 1})
    with pytest.raises(UsageError, match="known only once its weights are loaded"):
        project.plan(runner="tests.runners:Secretive")
    assert [event.pipeline for event in project.run(runner="tests.runners:Secretive") if isinstance(event, ModelReady)]
    assert sorted(path.name for path in project.out.glob("*.png")) == ["a.png", "b.png"]


def test_a_manifest_that_is_a_folder_is_named(project: Project) -> None:
    project.write({"id": "a", "num_frames": 1})
    (project.out / "manifest.jsonl").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"manifest\.jsonl"):
        project.plan()
