"""Models that ship their own `generate_image`: not run unless trusted, called by their own parameter names."""

import shutil
import sys
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from omni_cli.config import ModelConfig
from omni_cli.errors import ForwardError, MediaContractError, ModelLoadError
from omni_cli.media import Kind
from omni_cli.transport.messages import Loaded
from omni_cli.worker.loader.loaded_pipeline import identify
from tests.factories import planned
from tests.tiny import remote
from tests.worker.conftest import levels, load, run

FIELDS = {"prompt": "a fox", "height": 32, "width": 64, "num_inference_steps": 3, "guidance_scale": 2.0}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that transformers copies code to; one for all tests, because it is a package once imported."""
    return tmp_path_factory.mktemp("modules")


@pytest.fixture
def repository(modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the tiny repository, with transformers' copy of its code in the tests' folder."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(modules))
    monkeypatch.setattr("sys.path", [*sys.path])
    return remote.save(tmp_path / "tiny-image")


def rewrite(repository: Path, old: str, new: str) -> None:
    """Change the model's code and the configuration's, by whose class transformers caches the model's class."""
    for name in ("modeling_tiny.py", "config.json"):
        path = repository / name
        path.write_text(path.read_text().replace(old, new))
    with (repository / "configuration_tiny.py").open("a") as code:
        code.write(f"# {new}\n")


def test_remote_code_is_not_run_unless_it_is_trusted(repository: Path, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    rewrite(repository, "import zlib", f"import pathlib, zlib; pathlib.Path({str(trace)!r}).touch()")
    with pytest.raises(ModelLoadError, match=r"modeling_tiny\.HunyuanImage3ForCausalMM; .*pass --trust-remote-code"):
        load(str(repository))
    assert not trace.exists()
    load(str(repository), trust_remote_code=True)
    assert trace.exists()


def test_identify_rejects_untrusted_code_and_returns_none_for_trusted_code(repository: Path) -> None:
    def identified(**more: Any) -> Loaded | None:
        return identify(ModelConfig(model=str(repository), device="cpu", **more), lambda _: None)

    with pytest.raises(ModelLoadError, match="pass --trust-remote-code"):
        identified()
    assert identified(trust_remote_code=True) is None


def test_images_are_those_of_a_direct_call_of_generate_image(repository: Path) -> None:
    runner = load(str(repository), trust_remote_code=True)
    card = runner._model.card
    assert (card.pipeline, card.kind, card.batchable) == ("HunyuanImage3ForCausalMM", Kind.IMAGE, False)
    assert (card.defaults.num_inference_steps, card.defaults.guidance_scale) == (50, 7.5)
    assert {"prompt", "height", "width", "num_inference_steps", "guidance_scale", "bot_task"} <= set(card.parameters)
    assert not {"seed", "image_size"} & set(card.parameters)
    steps: list[tuple[int, int]] = []
    request = planned(seeds=(5, 6), **FIELDS, extra={"bot_task": "think"})
    media = runner.execute_model([request], lambda step, total: steps.append((step, total)), lambda: False)[0]
    model = AutoModelForCausalLM.from_pretrained(repository, trust_remote_code=True)
    model.load_tokenizer(str(repository))
    for sample, seed in zip(levels(media), (5, 6), strict=True):
        torch.manual_seed(seed)
        expected = model.generate_image(
            "a fox", seed=seed, image_size="32x64", diff_infer_steps=3, diff_guidance_scale=2.0
        )
        np.testing.assert_array_equal(sample, np.asarray(expected))
        assert sample.std() > 15
    assert (levels(media)[0] != levels(media)[1]).any()
    assert steps == [(step, 6) for step in range(1, 7)]


def test_a_request_without_a_size_gets_the_models_default_size(repository: Path) -> None:
    runner = load(str(repository), trust_remote_code=True)
    assert levels(run(runner, planned(prompt="x", num_inference_steps=1))[0]).shape == (1, 32, 48, 3)
    runner.sleep()
    runner.wake_up()
    runner.close()


def test_a_field_that_generate_image_does_not_accept_fails_the_request(repository: Path) -> None:
    runner = load(str(repository), trust_remote_code=True)
    with pytest.raises(ForwardError, match="HunyuanImage3ForCausalMM takes no strength"):
        run(runner, planned(prompt="x", strength=0.5))
    with pytest.raises(ForwardError, match=r"takes no extra\.seed"):
        run(runner, planned(prompt="x", extra={"seed": 3}))


def test_a_return_value_without_an_image_is_a_media_contract_error(repository: Path) -> None:
    rewrite(repository, "picture = Image", "picture = 'none'  # Image")
    rewrite(repository, "HunyuanImage3ForCausalMM", "Silent")
    runner = load(str(repository), trust_remote_code=True)
    assert "num_inference_steps" not in runner._model.card.parameters  # **kwargs of an unknown class have no names
    with pytest.raises(MediaContractError, match=r"Silent\.generate_image returned no image"):
        run(runner, planned(prompt="x", extra={"bot_task": None}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"pipeline": "FluxPipeline"}, "is not a diffusers pipeline"), ({"custom_pipeline": "mine.py"}, "mine.py")],
)
def test_settings_of_diffusers_pipelines_are_rejected(changes: dict[str, Any], words: str, repository: Path) -> None:
    with pytest.raises(Exception, match=words):
        load(str(repository), trust_remote_code=True, **changes)


def test_a_model_without_generate_image_is_an_error(repository: Path) -> None:
    rewrite(repository, "def generate_image", "def generate_text")
    with pytest.raises(ModelLoadError, match="has no generate_image"):
        load(str(repository), trust_remote_code=True)


def test_untrusted_code_on_the_hub_is_rejected_before_its_weights_are_downloaded(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, commit = tmp_path / "hub", "ab" * 20
    snapshot = cache / "models--owner--image" / "snapshots" / commit
    shutil.copytree(repository, snapshot)
    (cache / "models--owner--image" / "refs").mkdir()
    (cache / "models--owner--image" / "refs" / "main").write_text(commit)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelLoadError, match=r"'owner/image'.*--trust-remote-code"):
        load("owner/image")
    runner = load("owner/image", trust_remote_code=True)
    assert runner._model.info.revision == commit
    assert levels(run(runner, planned(**FIELDS))[0]).shape == (1, 32, 64, 3)
