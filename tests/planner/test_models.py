"""The models that rows name, and the problems of those that are missing."""

import json
from pathlib import Path
from typing import Any

import pytest

from omni_cli.config import EngineConfig, ModelConfig, RunConfig
from omni_cli.errors import ModelLoadError, PromptFileError
from omni_cli.models.cards import Card
from omni_cli.planner import ModelFacts, Models, Planner
from omni_cli.planner.check_file import check_file, local_lookup
from omni_cli.planner.models import MAX_MODELS
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.request import GenerationRequest, ModelInfo


def folder(path: Path, pipeline: str = "FluxPipeline") -> Path:
    path.mkdir(parents=True)
    (path / "model_index.json").write_text(json.dumps({"_class_name": pipeline}))
    return path


def models_of(
    default: ModelConfig, base: Path, seen: list[ModelConfig] | None = None, card: Card | None = None
) -> Models:
    def lookup(model: ModelConfig) -> ModelFacts:
        if seen is not None:
            seen.append(model)
        info = ModelInfo(id=model.title, revision=Path(model.model).name, pipeline="P", dtype="float32")
        return ModelFacts(card, info, {})

    return Models(default, base, lookup)


def test_relative_path_starts_at_the_prompt_files_folder(tmp_path: Path) -> None:
    folder(tmp_path / "m")
    models = models_of(ModelConfig(dtype="bfloat16", revision="main", trust_remote_code=True), tmp_path)
    config = models.config(models.key("m"))
    assert config == ModelConfig(model=str(tmp_path / "m"), name="m", dtype="bfloat16")
    assert config.title == "m"


@pytest.mark.parametrize("name", ["owner/name", "demo2", "nowhere/at/all"])
def test_name_that_is_no_local_path_is_kept(tmp_path: Path, name: str) -> None:
    models = models_of(ModelConfig(), tmp_path)
    assert models.config(models.key(name)).model == name


def test_spellings_of_one_model_share_a_key_and_the_default_model_has_none(tmp_path: Path) -> None:
    folder(tmp_path / "m")
    demo_run = models_of(ModelConfig(), tmp_path)
    (tmp_path / "link").symlink_to("m")
    spellings = ("m", "./m", "m/", str(tmp_path / "m"), f"{tmp_path}/m/", "link", "n/../m")
    (tmp_path / "n").mkdir()
    assert {demo_run.key(name) for name in spellings} == {"m"}
    assert (demo_run.key("demo"), demo_run.key(None)) == (None, None)
    run = models_of(ModelConfig(model=str(tmp_path / "m"), revision="x"), tmp_path)
    assert run.key("./m") is None
    assert run.config(run.key("m")).revision == "x"


def test_each_model_is_looked_up_once(tmp_path: Path) -> None:
    seen: list[ModelConfig] = []
    models = models_of(ModelConfig(), tmp_path, seen)
    for name in ("a/b", None, "a/b", "c/d", None):
        models.facts(models.key(name))
    assert [model.title for model in seen] == ["a/b", "demo", "c/d"]


def check(path: Path, **config: Any) -> int:
    with PromptSource(str(path), GenerationRequest()) as source:
        return check_file(RunConfig(**config), source)


def test_missing_models_are_located_problems(tmp_path: Path) -> None:
    folder(tmp_path / "empty").joinpath("model_index.json").unlink()
    pickled = folder(tmp_path / "pickled")
    (pickled / "model_index.json").write_text('{"_class_name": "FluxPipeline", "vae": ["diffusers", "AutoencoderKL"]}')
    (pickled / "vae").mkdir()
    (pickled / "vae" / "w.bin").write_text("x")
    folder(tmp_path / "good")
    rows = [
        '{"prompt": "x", "model": "no/such/folder"}',
        '{"prompt": "x", "model": "empty"}',
        '{"prompt": "x", "model": "pickled"}',
        '{"prompt": "x", "model": "good", "height": 100}',
        '{"prompt": "x", "model": "good", "num_frames": 5}',
        '{"prompt": "x", "model": "w.ckpt"}',
        json.dumps({"prompt": "x", "model": "n" * 3000}),
        '{"prompt": "x", "model": 7}',
        '{"prompt": "x", "model": "~nobody-of-that-name/x"}',
    ]
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(rows))
    with pytest.raises(PromptFileError) as refused:
        check(path)
    problems = {
        line: (problem.column, problem.field, problem.cause)
        for problem in refused.value.problems
        for line in (problem.line, *problem.also)
    }
    assert sorted(problems) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert problems[1] == (26, "model", 'no such folder or file, and not a hub id like "owner/name"')
    assert "has no model_index.json" in problems[2][2]
    assert "a pickle" in problems[3][2]
    assert (problems[4][1], problems[5][1]) == ("height", "num_frames")
    assert "FluxPipeline makes no video" in problems[5][2]
    assert "are pickles" in problems[6][2]
    assert (problems[7][1], problems[8][1], problems[9][1]) == ("model", "model", "model")


def test_row_is_checked_against_the_card_of_its_own_model(tmp_path: Path) -> None:
    folder(tmp_path / "good")
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "x", "num_frames": 5}\n{"prompt": "x", "model": "good", "guidance_scale": 3.5}\n')
    assert check(path) == 2


def test_number_of_models_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text("".join(f'{{"prompt": "x", "model": "o/m{n}"}}\n' for n in range(MAX_MODELS + 2)))
    with pytest.raises(PromptFileError) as refused:
        check(path, engine=EngineConfig(runner="elsewhere:Runner"))
    (problem,) = refused.value.problems
    assert (problem.line, problem.also) == (MAX_MODELS + 1, (MAX_MODELS + 2,))


def test_model_of_another_runner_is_not_checked(tmp_path: Path) -> None:
    assert local_lookup(RunConfig(engine=EngineConfig(runner="elsewhere:Runner")))(ModelConfig(name="x")) == ModelFacts(
        None
    )


def test_plan_has_the_key_and_fingerprint_of_its_model(tmp_path: Path, ask: Any, card: Card) -> None:
    folder(tmp_path / "m")

    def plan(default: ModelConfig, **fields: Any) -> tuple[str | None, str, str]:
        planned = Planner(RunConfig(model=default), models_of(default, tmp_path, card=card), tmp_path).plan(
            ask(id="a", **fields)
        )
        return planned.request.model, planned.fingerprint, planned.shape.batch_key

    by_flag = plan(ModelConfig(model="m"))
    by_row = plan(ModelConfig(), model="m")
    assert (by_flag[0], by_row[0]) == (None, "m")
    assert by_flag[1] == by_row[1], "a model is the same model whether a flag or a row names it"
    default = plan(ModelConfig())
    assert default[1] != by_row[1]
    assert default[2] != by_row[2]
    assert plan(ModelConfig(), model="demo") == default


def test_model_that_fails_to_load_is_a_problem_of_its_row(tmp_path: Path, ask: Any) -> None:
    def lookup(model: ModelConfig) -> ModelFacts:
        raise ModelLoadError(f"--model {model.model!r}: is broken")

    with pytest.raises(PromptFileError, match=r"prompts.jsonl:1:7: model: is broken"):
        Planner(RunConfig(), Models(ModelConfig(), tmp_path, lookup), tmp_path).plan(ask(model="a/b"))
    with pytest.raises(ModelLoadError):
        Planner(RunConfig(), Models(ModelConfig(), tmp_path, lookup), tmp_path).plan(ask())
