"""Which model a row means, and what is said of one that is not there."""

import json
from pathlib import Path
from typing import Any

import pytest

from omni_cli.config import EngineConfig, ModelConfig, RunConfig
from omni_cli.errors import ModelLoadError, PromptFileError
from omni_cli.models.cards import Card
from omni_cli.planner import Facts, Models, Planner
from omni_cli.planner.check_file import check_file, from_here
from omni_cli.planner.models import MAX_MODELS
from omni_cli.planner.source import Source
from omni_cli.request import GenerationRequest, ModelInfo


def folder(path: Path, pipeline: str = "FluxPipeline") -> Path:
    path.mkdir(parents=True)
    (path / "model_index.json").write_text(json.dumps({"_class_name": pipeline}))
    return path


def book(own: ModelConfig, base: Path, seen: list[ModelConfig] | None = None, card: Card | None = None) -> Models:
    def look(model: ModelConfig) -> Facts:
        if seen is not None:
            seen.append(model)
        info = ModelInfo(id=model.title, revision="r", pipeline="P", dtype="float32")
        return Facts(card, info, {})

    return Models(own, base, look)


def test_a_path_starts_at_the_prompt_files_folder_and_keeps_its_name(tmp_path: Path) -> None:
    folder(tmp_path / "m")
    models = book(ModelConfig(dtype="bfloat16", revision="main", trust_remote_code=True), tmp_path)
    config = models.config(models.key("m"))
    assert config == ModelConfig(model=str(tmp_path / "m"), name="m", dtype="bfloat16")
    assert config.title == "m"


@pytest.mark.parametrize("name", ["owner/name", "demo2", "nowhere/at/all"])
def test_what_is_no_path_here_is_taken_as_written(tmp_path: Path, name: str) -> None:
    models = book(ModelConfig(), tmp_path)
    assert models.config(models.key(name)).model == name


def test_two_spellings_are_one_model_and_the_runs_own_has_no_key(tmp_path: Path) -> None:
    folder(tmp_path / "m")
    other = book(ModelConfig(), tmp_path)
    assert {other.key(name) for name in ("m", "./m", "m/")} == {"m"}
    assert (other.key("demo"), other.key(None)) == (None, None)
    own = book(ModelConfig(model=str(tmp_path / "m"), revision="x"), tmp_path)
    assert own.key("./m") is None
    assert own.config(own.key("m")).revision == "x"


def test_each_model_is_looked_at_once(tmp_path: Path) -> None:
    seen: list[ModelConfig] = []
    models = book(ModelConfig(), tmp_path, seen)
    for name in ("a/b", None, "a/b", "c/d", None):
        models.facts(models.key(name))
    assert [model.title for model in seen] == ["a/b", "demo", "c/d"]


def check(path: Path, **config: Any) -> int:
    with Source(str(path), GenerationRequest()) as source:
        return check_file(RunConfig(**config), source)


def test_every_model_that_is_not_there_is_a_located_problem_beside_all_others(tmp_path: Path) -> None:
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
    found = {problem.line: (problem.column, problem.field, problem.message) for problem in refused.value.problems}
    assert sorted(found) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert found[1] == (26, "model", 'no such folder or file, and not a hub id like "owner/name"')
    assert "has no model_index.json" in found[2][2]
    assert "a pickle" in found[3][2]
    assert (found[4][1], found[5][1]) == ("height", "num_frames")
    assert "FluxPipeline makes no video" in found[5][2]
    assert "are pickles" in found[6][2]
    assert (found[7][1], found[8][1], found[9][1]) == ("model", "model", "model")


def test_a_row_is_judged_by_the_card_of_its_own_model(tmp_path: Path) -> None:
    folder(tmp_path / "good")
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "x", "num_frames": 5}\n{"prompt": "x", "model": "good", "guidance_scale": 3.5}\n')
    assert check(path) == 2


def test_a_file_may_not_name_models_without_end(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text("".join(f'{{"prompt": "x", "model": "o/m{n}"}}\n' for n in range(MAX_MODELS + 2)))
    with pytest.raises(PromptFileError) as refused:
        check(path, engine=EngineConfig(runner="elsewhere:Runner"))
    assert [problem.line for problem in refused.value.problems] == [MAX_MODELS + 1, MAX_MODELS + 2]


def test_nothing_is_held_against_a_model_that_another_runner_knows(tmp_path: Path) -> None:
    assert from_here(RunConfig(engine=EngineConfig(runner="elsewhere:Runner")))(ModelConfig(name="x")) == Facts(None)


def test_plans_carry_the_key_and_the_fingerprint_of_their_model(tmp_path: Path, ask: Any, card: Card) -> None:
    folder(tmp_path / "m")

    def plan(own: ModelConfig, **fields: Any) -> tuple[str | None, str, str]:
        planned = Planner(RunConfig(model=own), book(own, tmp_path, card=card), tmp_path).plan(ask(id="a", **fields))
        return planned.request.model, planned.fingerprint, planned.batch_key

    own = plan(ModelConfig(model="m"))
    named = plan(ModelConfig(), model="m")
    assert (own[0], named[0]) == (None, "m")
    assert own[1] == named[1], "a model is the same model whether a flag or a row names it"
    default = plan(ModelConfig())
    assert default[1] != named[1]
    assert default[2] != named[2]
    assert plan(ModelConfig(), model="demo") == default


def test_a_model_that_an_engine_refuses_is_a_problem_of_its_row(tmp_path: Path, ask: Any) -> None:
    def look(model: ModelConfig) -> Facts:
        raise ModelLoadError(f"--model {model.model!r}: is broken")

    with pytest.raises(PromptFileError, match=r"prompts.jsonl:1:7: model: is broken"):
        Planner(RunConfig(), Models(ModelConfig(), tmp_path, look), tmp_path).plan(ask(model="a/b"))
    with pytest.raises(ModelLoadError):
        Planner(RunConfig(), Models(ModelConfig(), tmp_path, look), tmp_path).plan(ask())
