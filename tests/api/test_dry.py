"""A dry run: it leaves nothing behind, loads nothing, and says what the run then does."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from omni_cli.api.dry import AnyPlanLine, PlanGroup, PlanModel, PlanRequest, PlanTotals, plan_file
from omni_cli.api.run import run_file
from omni_cli.api.session import Session
from omni_cli.cli.dry import dry_run
from omni_cli.config import AUTO_BATCH_SIZE, EngineConfig, ModelConfig, OutputConfig, RunConfig
from omni_cli.errors import PromptFileError, UsageError
from omni_cli.events import AnyEvent, ForwardStarted, ModelReady
from omni_cli.models.weights import weight_bytes
from omni_cli.planner.source import Source
from omni_cli.trace import Timeline

NULL = "omni_cli.worker.null:NullRunner"


class World:
    """A prompt file and an output folder, planned and rendered in this process by a runner without a model."""

    def __init__(self, folder: Path) -> None:
        self.prompts = folder / "p.jsonl"
        self.out = folder / "out"

    def write(self, *rows: dict[str, Any]) -> None:
        self.prompts.write_text("".join(json.dumps({"prompt": "x", "seed": 1, **row}) + "\n" for row in rows))

    def config(self, *, runner: str = NULL, overwrite: bool = False, quality: int = 95, **config: Any) -> RunConfig:
        engine = EngineConfig(executor="inline", runner=runner, **config.pop("engine", {}))
        output = OutputConfig(output_dir=str(self.out), overwrite=overwrite, quality=quality)
        return RunConfig(engine=engine, output=output, **config)

    def plan(self, **config: Any) -> list[AnyPlanLine]:
        lines: list[AnyPlanLine] = []
        events: list[AnyEvent] = []
        with (
            Source(str(self.prompts), self.config().defaults) as source,
            Session(self.config(**config), events.append, Timeline(), dry=True) as session,
        ):
            assert plan_file(session, source, lines.append) == lines[-1]
        assert not [event for event in events if isinstance(event, ModelReady | ForwardStarted)]
        return lines

    def run(self, **config: Any) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        with (
            Source(str(self.prompts), self.config().defaults) as source,
            Session(self.config(**config), events.append, Timeline()) as session,
        ):
            run_file(session, source)
        return events


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def totals(lines: list[AnyPlanLine]) -> PlanTotals:
    assert isinstance(lines[-1], PlanTotals)
    return lines[-1]


MIXED = [
    {"id": f"r{n}", "model": model, "num_frames": 1, "height": height, "format": "npy"}
    for n, (model, height) in enumerate([("A", 64), ("B", 64), ("A", 32), ("A", 64), ("B", 64), ("A", 64)])
]


@pytest.mark.parametrize("engine", [{}, {"batch_size": 2}])
@pytest.mark.parametrize("lookahead", [0, 1000])
def test_its_counts_are_what_the_run_then_does(world: World, engine: dict[str, Any], lookahead: int) -> None:
    world.write(*MIXED)
    before = sorted(world.out.parent.iterdir())
    lines = world.plan(engine=engine, lookahead=lookahead)
    assert sorted(world.out.parent.iterdir()) == before
    events = world.run(engine=engine, lookahead=lookahead)
    plan = totals(lines)
    assert (plan.requests, plan.render, plan.skip, plan.outputs, plan.reasons) == (6, 6, 0, 6, {"new": 6})
    assert plan.loads == len([event for event in events if isinstance(event, ModelReady)])
    forwards = [event.ids for event in events if isinstance(event, ForwardStarted)]
    assert plan.calls == len(forwards)
    planned = [line for line in lines if isinstance(line, PlanRequest)]
    assert [line.id for line in planned] == [id_ for ids in forwards for id_ in ids]
    assert sorted(path.name for path in world.out.glob("*.npy")) == sorted(f for line in planned for f in line.files)
    written = sum(path.stat().st_size for path in world.out.iterdir())
    assert 0.8 < plan.disk_bytes / written < 1.2
    assert totals(world.plan(engine=engine, lookahead=lookahead)).skip == 6


def test_groups_say_what_is_rendered_together(world: World) -> None:
    world.write(*MIXED, {"id": "l", "model": "B", "lora": [{"path": "owner/lora", "weight": 0.5}], "num_frames": 1})
    groups = [line for line in world.plan() if isinstance(line, PlanGroup)]
    assert [(g.model, g.height, len(g.lora), g.requests, g.calls) for g in groups] == [
        ("A", 64, 0, 3, 3), ("A", 32, 0, 1, 1), ("B", 64, 0, 2, 2), ("B", 64, 1, 1, 1),
    ]  # fmt: skip
    assert groups[-1].lora[0].path == "owner/lora"
    assert {g.memory_bytes for g in groups} == {None}
    assert {g.num_inference_steps for g in groups} == {1}


def test_the_size_of_calls_that_measuring_will_find_is_not_guessed(world: World) -> None:
    world.write(*MIXED)
    lines = world.plan(engine={"batch_size": AUTO_BATCH_SIZE})
    assert totals(lines).calls is None
    assert {line.calls for line in lines if isinstance(line, PlanGroup)} == {None}


def test_the_least_memory_is_the_weights_and_the_decoded_outputs_of_the_widest_call(world: World) -> None:
    world.write({"id": "a", "num_outputs": 3, "num_frames": 5})
    lines = world.plan()
    (model,) = [line for line in lines if isinstance(line, PlanModel)]
    (group,) = [line for line in lines if isinstance(line, PlanGroup)]
    assert model.weight_bytes == weight_bytes(ModelConfig(), None, "float32")
    assert model.weight_bytes is not None
    assert group.memory_bytes == model.weight_bytes + 3 * 5 * 64 * 64 * 3 * (4 + 1)


def test_every_request_has_its_reason(world: World) -> None:
    rows = [{"id": id_, "num_frames": 1} for id_ in ("done", "changed", "gone", "failed")]
    world.write(*rows[:3], {**rows[3], "prompt": "nan"})
    world.run(runner="tests.runners:Invalid")
    (world.out / "gone.png").unlink()
    world.write(rows[0], {**rows[1], "seed": 2}, *rows[2:], {"id": "new", "num_frames": 1})
    state = {path: path.read_bytes() for path in world.out.iterdir()}
    lines = world.plan()
    assert {line.id: (line.reason, line.skip) for line in lines if isinstance(line, PlanRequest)} == {
        "done": ("done", True),
        "changed": ("changed", False),
        "gone": ("file_missing", False),
        "failed": ("failed", False),
        "new": ("new", False),
    }
    assert (totals(lines).render, totals(lines).skip) == (4, 1)
    assert {path: path.read_bytes() for path in world.out.iterdir()} == state
    assert totals(world.plan(overwrite=True)).reasons == {"overwrite": 5}


def test_a_file_with_problems_is_refused_as_by_a_run(world: World) -> None:
    world.write({"id": "a", "num_frames": 1}, {"id": "a", "num_frames": 1})
    with pytest.raises(PromptFileError, match="already the id of line 1"):
        world.plan()
    assert not world.out.exists()


def test_a_model_that_only_loading_tells_of_is_not_loaded_but_said(world: World) -> None:
    world.write({"id": "a", "num_frames": 1}, {"id": "b", "model": "B", "num_frames": 1})
    with pytest.raises(UsageError, match="told only by its loaded weights"):
        world.plan(runner="tests.runners:Secretive")
    assert [event.pipeline for event in world.run(runner="tests.runners:Secretive") if isinstance(event, ModelReady)]
    assert sorted(path.name for path in world.out.glob("*.png")) == ["a.png", "b.png"]


def test_a_manifest_that_is_no_file_is_named(world: World) -> None:
    world.write({"id": "a", "num_frames": 1})
    (world.out / "manifest.jsonl").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"manifest\.jsonl"):
        world.plan()


@pytest.fixture
def shown(world: World, capfd: pytest.CaptureFixture[str]) -> Iterator[Any]:
    world.write({"id": "a", "num_frames": 1}, {"id": "b", "num_frames": 1, "model": "\u202eevil[red]"})

    def show(data: Any) -> tuple[str, str]:
        assert dry_run(str(world.prompts), world.config(), data) == 0
        return capfd.readouterr()

    yield show
    assert not world.out.exists()


def test_people_read_the_plan_on_stderr_and_programs_have_stdout(shown: Any, world: World) -> None:
    out, err = shown(None)
    assert out == ""
    assert "plan: 2 of 2 requests to render, 0 already done" in err
    assert "2 model loads" in err
    assert f"{world.out}/a.png" in err
    assert err.endswith("nothing was rendered\n")
    assert "\u202e" not in err


def test_paths_are_one_a_line_on_stdout(shown: Any, world: World) -> None:
    out, err = shown("paths")
    assert out.splitlines() == [f"{world.out}/a.png", f"{world.out}/b.png"]
    assert "plan: 2 of 2" in err


def test_json_is_every_line_of_the_plan(shown: Any) -> None:
    out, err = shown("json")
    assert [json.loads(line)["plan"] for line in out.splitlines()] == [
        "request", "request", "model", "model", "group", "group", "totals",
    ]  # fmt: skip
    assert err == ""
    decoded = [msgspec.json.decode(line, type=AnyPlanLine) for line in out.splitlines()]
    assert isinstance(decoded[-1], PlanTotals)
