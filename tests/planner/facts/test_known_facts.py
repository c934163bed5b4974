"""What is known of a model from its files, the cards and the cache, and when none of it may be used."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from omni_cli.config import EngineConfig, ModelConfig, Tuning
from omni_cli.errors import ModelLoadError
from omni_cli.media import Kind
from omni_cli.models.cards import Card
from omni_cli.models.content_revision import content_revision
from omni_cli.models.demo import WEIGHTS
from omni_cli.planner.facts import KnownFacts, facts_key, known_facts
from omni_cli.request import ModelInfo
from omni_cli.transport.messages import Loaded

NO_CARD = "SomebodysPipeline"
"""A class that diffusers does not define."""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def known(environ: dict[str, str]) -> Callable[[], KnownFacts]:
    """Return a function that makes the facts of another process."""
    return lambda: KnownFacts(EngineConfig(), environ)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose class has no card."""
    path = tmp_path / "model"
    (path / "scheduler").mkdir(parents=True)
    (path / "scheduler" / "scheduler_config.json").write_text("{}")
    (path / "model_index.json").write_text(json.dumps({"_class_name": NO_CARD, "scheduler": ["diffusers", "S"]}))
    return path


def reported(folder: Path, title: str | None = None) -> Loaded:
    """Return what a worker might report of `folder`."""
    info = ModelInfo(id=title or str(folder), revision=content_revision(folder), pipeline=NO_CARD, dtype="float32")
    versions = facts_key.library_versions()
    return Loaded(info=info, card=Card(pipeline=NO_CARD, kind=Kind.IMAGE), device="cpu", versions=dict(versions))


def cpu(folder: Path, **more: object) -> ModelConfig:
    return ModelConfig(model=str(folder), device="cpu", **more)  # type: ignore[arg-type]


def test_a_class_with_a_card_is_known_from_files_alone(known: Callable[[], KnownFacts]) -> None:
    facts = known().look_up(ModelConfig(model="demo", device="cpu", dtype="bf16"))
    assert facts is not None
    assert facts.info == ModelInfo(
        id="demo", revision=content_revision(WEIGHTS), pipeline="WanPipeline", dtype="bfloat16"
    )
    assert (facts.card.defaults.height, facts.device, facts.devices) == (64, "cpu", 1)
    assert {"prompt", "num_frames"} <= set(facts.card.parameters)
    assert set(facts.versions) == {"torch", "diffusers", "transformers"}


@pytest.mark.parametrize(
    "model",
    [
        cpu(WEIGHTS, dtype="double"),
        cpu(WEIGHTS, tuning=Tuning(scheduler="UniPCMultistepScheduler")),
        cpu(WEIGHTS, pipeline="NoSuchPipeline"),
        cpu(WEIGHTS, tuning=Tuning(components={"vae": "missing.safetensors"})),
        ModelConfig(model="owner/not-downloaded", device="cpu"),
    ],
    ids=["dtype", "tuning", "pipeline", "component", "hub"],
)
def test_what_needs_the_libraries_is_left_to_a_worker(known: Callable[[], KnownFacts], model: ModelConfig) -> None:
    assert known().look_up(model) is None


def test_a_missing_or_damaged_model_is_refused(known: Callable[[], KnownFacts], tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="no such folder or file"):
        known().look_up(cpu(tmp_path / "nothere"))
    damaged = Path(shutil.copytree(WEIGHTS, tmp_path / "damaged"))
    weights = next(damaged.rglob("vae/*.safetensors"))
    os.truncate(weights, weights.stat().st_size // 2)
    with pytest.raises(ModelLoadError, match="is cut short"):
        known().look_up(cpu(damaged))
    (tmp_path / "m.safetensors").touch()
    with pytest.raises(ModelLoadError, match="is empty"):
        known().look_up(cpu(tmp_path / "m.safetensors"))


def test_what_a_worker_reported_is_known_to_later_processes(known: Callable[[], KnownFacts], folder: Path) -> None:
    assert known().look_up(cpu(folder)) is None
    known().learn(cpu(folder), reported(folder))
    assert known().look_up(cpu(folder)) == reported(folder)
    by_row = cpu(folder, name="m")
    assert known().look_up(by_row) == reported(folder, "m")


def test_a_worker_is_believed_more_than_what_is_derived(known: Callable[[], KnownFacts]) -> None:
    model = cpu(WEIGHTS)
    derived = known().look_up(model)
    assert derived is not None
    corrected = structs.replace(derived, card=structs.replace(derived.card, parameters=("prompt",)))
    first = known()
    first.look_up(model)
    first.learn(model, corrected)
    assert first.look_up(model) == corrected
    assert known().look_up(model) == corrected


def test_what_was_derived_is_not_derived_again(
    known: Callable[[], KnownFacts], monkeypatch: pytest.MonkeyPatch
) -> None:
    derived = known().look_up(cpu(WEIGHTS))
    monkeypatch.setattr(known_facts, "card_from_source", lambda *arguments: None)
    assert known().look_up(cpu(WEIGHTS)) == derived
    assert derived is not None
    assert known().look_up(cpu(WEIGHTS, dtype="float16")) is None


def change_a_file(folder: Path) -> dict[str, object]:
    (folder / "scheduler" / "scheduler_config.json").write_text('{"shift": 2}')
    return {}


def add_a_card(folder: Path) -> dict[str, object]:
    (folder / "omni-gen.toml").write_text("[defaults]\nheight = 64\n")
    return {}


def give_cards(folder: Path) -> dict[str, object]:
    path = folder.with_name("cards.toml")
    path.write_text(f"[cards.{NO_CARD}]\nsizes = {{ multiple = 16 }}\n")
    return {"cards": str(path)}


@pytest.mark.parametrize(
    "change",
    [
        change_a_file,
        add_a_card,
        give_cards,
        lambda folder: {"dtype": "bfloat16"},
        lambda folder: {"device": "auto"},
        lambda folder: {"trust_remote_code": True},
        lambda folder: {"tuning": Tuning(vae_tiling=True)},
    ],
    ids=["file", "card in the folder", "cards", "dtype", "device", "trust", "tuning"],
)
def test_facts_of_other_files_or_settings_are_not_used(
    known: Callable[[], KnownFacts], folder: Path, change: Callable[[Path], dict[str, object]]
) -> None:
    known().learn(cpu(folder), reported(folder))
    assert known().look_up(ModelConfig(**{"model": str(folder), "device": "cpu"} | change(folder))) is None  # type: ignore[arg-type]


def test_facts_of_another_content_of_the_users_cards_are_not_used(
    known: Callable[[], KnownFacts], folder: Path
) -> None:
    model = cpu(folder, **give_cards(folder))
    known().learn(model, reported(folder))
    assert known().look_up(model) is not None
    Path(model.cards or "").write_text(f"[cards.{NO_CARD}]\nsizes = {{ multiple = 32 }}\n")
    assert known().look_up(model) != reported(folder)


def test_a_model_that_is_gone_since_is_not_kept(known: Callable[[], KnownFacts], folder: Path) -> None:
    model, loaded = cpu(folder, **give_cards(folder)), reported(folder)
    Path(model.cards or "").unlink()
    known().learn(model, loaded)
    shutil.rmtree(folder)
    here = known()
    here.learn(model, loaded)
    assert here.look_up(model) == loaded, "this run has it loaded"


def test_facts_of_other_libraries_or_devices_are_not_used(
    known: Callable[[], KnownFacts], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known().learn(cpu(folder), reported(folder))
    with monkeypatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "5")
        assert known().look_up(cpu(folder)) is None
    with monkeypatch.context() as patch:
        patch.setattr(facts_key, "library_versions", lambda: {"diffusers": "99"})
        assert known().look_up(cpu(folder)) is None
    with monkeypatch.context() as patch:
        patch.setattr(facts_key, "_code_version", lambda: "99")
        assert known().look_up(cpu(folder)) is None
    assert known().look_up(cpu(folder)) is not None


def test_a_worker_that_read_other_files_is_not_believed(known: Callable[[], KnownFacts], folder: Path) -> None:
    before = reported(folder)
    change_a_file(folder)
    known().learn(cpu(folder), before)
    assert known().look_up(cpu(folder)) is None


def test_models_of_another_runner_are_unknown(environ: dict[str, str], tmp_path: Path) -> None:
    known = KnownFacts(EngineConfig(runner="elsewhere:Runner"), environ)
    assert known.look_up(ModelConfig()) is None
    known.learn(ModelConfig(), reported(WEIGHTS))
    assert not (tmp_path / "cache").exists()
