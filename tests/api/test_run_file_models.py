"""Runs that mix models: few loads, and the same pixels as each model alone."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omni_cli.api.run_file import run_file
from omni_cli.api.session import Session
from omni_cli.config import EngineConfig, ModelConfig, OutputConfig, RunConfig, Tuning
from omni_cli.errors import PromptFileError, UsageError
from omni_cli.events import AnyEvent, ModelReady, ModelSwitched, RequestFinished, RunFinished, RunStarted
from omni_cli.journal import read_rows
from omni_cli.models.demo import WEIGHTS
from omni_cli.planner.facts import KnownFacts
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.request import Result
from omni_cli.trace import Timeline
from tests import tiny

SHAPES: dict[str, dict[str, Any]] = {
    "wan": {"num_frames": 5, "height": 32, "width": 32, "steps": 2},
    "flux": {"height": 32, "width": 32, "steps": 2},
}


def row(id_: str, model: str | None, **fields: Any) -> dict[str, Any]:
    named = {} if model is None else {"model": model}
    return {"id": id_, "prompt": f"prompt {id_}", "seed": 3, "format": "npy", **named, **fields}


ROWS = [row(f"{model}{n}", model, **SHAPES[model]) for n in range(3) for model in ("wan", "flux")]


class FinishedRun:
    """A finished run of `rows`, whose prompt file is beside the models in `folder`; inline by default."""

    def __init__(self, folder: Path, rows: list[dict[str, Any]], out: str, **config: Any) -> None:
        prompts = folder / f"{out}.jsonl"
        prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.out = folder / out
        self.events: list[AnyEvent] = []
        engine = EngineConfig(**{"executor": "inline", **config.pop("engine", {})})
        run = RunConfig(engine=engine, output=OutputConfig(output_dir=str(self.out)), **config)
        with (
            PromptSource(str(prompts), run.defaults) as source,
            Session(run, self.events.append, Timeline(), base=source.base) as session,
        ):
            self.code = run_file(session, source)

    @property
    def loaded(self) -> list[str]:
        return [event.pipeline for event in self.events if isinstance(event, ModelReady)]

    @property
    def rows(self) -> dict[str, Result]:
        return {result.id: result for result in read_rows(self.out / "manifest.jsonl")}

    def bytes_of(self, id_: str) -> bytes:
        return (self.out / f"{id_}.npy").read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    for name in SHAPES:
        tiny.save(name, folder / name)
    return folder


@pytest.fixture(scope="module")
def mixed(folder: Path) -> FinishedRun:
    """Render six interleaved requests of two models in a worker process."""
    return FinishedRun(folder, ROWS, "mixed", engine={"executor": "local"})


def test_interleaved_requests_of_two_models_take_two_loads(mixed: FinishedRun) -> None:
    assert mixed.code == 0
    assert mixed.loaded == ["WanPipeline", "FluxPipeline"]
    assert [event.model for event in mixed.events if isinstance(event, ModelSwitched)] == ["flux"]
    (started,) = [event for event in mixed.events if isinstance(event, RunStarted)]
    assert (started.model, started.total) == ("wan, flux", 6)
    assert {id_: (r.status, r.index, r.model.id, r.model.pipeline) for id_, r in mixed.rows.items()} == {
        r["id"]: ("done", n, r["model"], {"wan": "WanPipeline", "flux": "FluxPipeline"}[r["model"]])
        for n, r in enumerate(ROWS)
    }
    assert mixed.rows["flux0"].request.model == "flux"


@pytest.mark.parametrize("name", SHAPES)
def test_pixels_equal_those_of_a_run_of_one_model(mixed: FinishedRun, folder: Path, name: str) -> None:
    rows = [{**row, "model": None} for row in ROWS if row["model"] == name]
    rows = [{key: value for key, value in row.items() if value is not None} for row in rows]
    alone = FinishedRun(folder, rows, f"alone-{name}", model=ModelConfig(model=str(folder / name)))
    assert alone.code == 0
    for row_ in rows:
        assert alone.bytes_of(row_["id"]) == mixed.bytes_of(row_["id"]), row_["id"]
    assert mixed.bytes_of(f"{name}0") != mixed.bytes_of(f"{name}1")


@pytest.fixture
def run_again(mixed: FinishedRun, folder: Path) -> Callable[..., FinishedRun]:
    """Copy the finished run; return a function that runs it again."""
    shutil.rmtree(folder / "again", ignore_errors=True)
    shutil.copytree(mixed.out, folder / "again")
    return lambda rows=ROWS, **config: FinishedRun(folder, rows, "again", **config)


def test_a_resumed_run_loads_only_the_model_of_missing_requests(
    run_again: Callable[..., FinishedRun], folder: Path, mixed: FinishedRun
) -> None:
    (folder / "again" / "flux1.npy").unlink()
    run = run_again()
    assert run.loaded == ["FluxPipeline"]
    (end,) = [event for event in run.events if isinstance(event, RunFinished)]
    assert (end.exit_code, end.done, end.skipped) == (0, 1, 5)
    assert run.bytes_of("flux1") == mixed.bytes_of("flux1")


def test_a_run_with_nothing_missing_loads_no_model(run_again: Callable[..., FinishedRun]) -> None:
    run = run_again()
    assert (run.code, run.loaded) == (0, [])


def test_what_only_the_libraries_tell_of_a_model_is_known_to_the_next_run(folder: Path) -> None:
    tuning = Tuning(scheduler="UniPCMultistepScheduler")
    model = ModelConfig(model=str(folder / "wan"), device="cpu", tuning=tuning)
    assert KnownFacts(EngineConfig()).look_up(model) is None
    run = FinishedRun(folder, [row("a", None, **SHAPES["wan"])], "tuned", model=model)
    assert (run.code, run.loaded) == (0, ["WanPipeline"])
    known = KnownFacts(EngineConfig()).look_up(model)
    assert known is not None
    assert known.info == run.rows["a"].model


def test_without_lookahead_requests_run_in_file_order_with_the_same_results(folder: Path, mixed: FinishedRun) -> None:
    run = FinishedRun(folder, ROWS, "in-order", lookahead=0)
    assert run.loaded == ["WanPipeline", "FluxPipeline"] * 3
    assert {id_: r.fingerprint for id_, r in run.rows.items()} == {id_: r.fingerprint for id_, r in mixed.rows.items()}
    assert all(run.bytes_of(r["id"]) == mixed.bytes_of(r["id"]) for r in ROWS)


@pytest.fixture
def broken(folder: Path) -> str:
    """Make a model whose files look whole and which cannot be loaded."""
    shutil.rmtree(folder / "broken", ignore_errors=True)
    shutil.copytree(folder / "flux", folder / "broken")
    (folder / "broken" / "transformer" / "config.json").write_text('{"num_layers": ')
    return "broken"


def test_a_model_that_cannot_be_loaded_after_another_fails_its_own_requests_alone(folder: Path, broken: str) -> None:
    rows = [ROWS[0], row("b", broken, **SHAPES["flux"]), ROWS[1], row("b2", broken, **SHAPES["flux"])]
    run = FinishedRun(folder, rows, "one-broken")
    assert run.code == 1
    assert {id_: result.status for id_, result in run.rows.items()} == {
        "wan0": "done", "flux0": "done", "b": "failed", "b2": "failed",
    }  # fmt: skip
    error = run.rows["b"].error
    assert error is not None
    assert error.kind == "model_load_failed"
    assert run.rows["b"].model.id == "broken"


def test_models_that_the_engine_rejects_are_reported_by_row_before_anything_is_loaded(folder: Path) -> None:
    for name, library in (("foreign", "somebody_elses"), ("foreign2", "os")):
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(folder / "flux", folder / name)
        index = json.loads((folder / name / "model_index.json").read_text())
        (folder / name / "model_index.json").write_text(json.dumps(index | {"transformer": [library, "X"]}))
    rows = [ROWS[0], row("f", "foreign"), row("g", "foreign"), row("h", "foreign2")]
    with pytest.raises(PromptFileError) as refused:
        FinishedRun(folder, rows, "refused", model=ModelConfig(trust_remote_code=True))
    assert [(problem.line, problem.field) for problem in refused.value.problems] == [(2, "model"), (4, "model")]
    assert "needs code that is not part of diffusers" in refused.value.problems[0].cause
    assert not [*(folder / "refused").glob("*.npy")]


def test_one_model_spelled_otherwise_or_moved_renders_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(WEIGHTS, tmp_path / "models" / "x")
    requests = [
        row("a", None, num_frames=1, steps=1, height=32, width=32),
        row("b", "models/x", num_frames=1, steps=1, height=32, width=32),
    ]

    def rendered(model: str) -> int:
        run = FinishedRun(tmp_path, requests, "out", model=ModelConfig(model=model))
        return sum(isinstance(event, RequestFinished) for event in run.events)

    assert rendered("models/x") == 2
    (tmp_path / "link").symlink_to("models/x")
    for spelling in ("models/x/", "./models/x", str(tmp_path / "models/x"), f"{tmp_path}//models/x/", "link"):
        assert rendered(spelling) == 0, spelling
    shutil.copytree(tmp_path / "models", tmp_path / "elsewhere")
    requests[1]["model"] = "elsewhere/x/"  # also in a row
    assert rendered("elsewhere/x") == 0
    (tmp_path / "models/x/tokenizer/extra.txt").write_text("changed")
    requests[1]["model"] = "models/x"
    with pytest.raises(UsageError, match=r"2 requests are finished .*\n.*model revision: "):
        rendered("models/x")
