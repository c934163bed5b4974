"""Models that bring their own `generate_image`: not run unless trusted, asked in their own words, their images typed."""

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
from omni_cli.worker.loader.pipeline import identify
from tests.tiny import remote
from tests.worker.conftest import levels, load, planned, run

ASKED = {"prompt": "a fox", "height": 32, "width": 64, "num_inference_steps": 3, "guidance_scale": 2.0}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where transformers copies code to; one folder, as it is a package once it has been imported."""
    return tmp_path_factory.mktemp("modules")


@pytest.fixture
def repository(modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny repository; what is made of its code stays in the tests' folder."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(modules))
    monkeypatch.setattr("sys.path", [*sys.path])
    return remote.save(tmp_path / "tiny-image")


def rewrite(repository: Path, old: str, new: str) -> None:
    """Other code for this test alone: transformers keeps the model's class by the configuration's, whose code changes with it."""
    for name in ("modeling_tiny.py", "config.json"):
        path = repository / name
        path.write_text(path.read_text().replace(old, new))
    with (repository / "configuration_tiny.py").open("a") as code:
        code.write(f"# {new}\n")


def test_without_the_flag_its_code_is_not_run(repository: Path, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    rewrite(repository, "import zlib", f"import pathlib, zlib; pathlib.Path({str(trace)!r}).touch()")
    with pytest.raises(ModelLoadError, match=r"modeling_tiny\.HunyuanImage3ForCausalMM; .*pass --trust-remote-code"):
        load(str(repository))
    assert not trace.exists()
    load(str(repository), trust_remote_code=True)
    assert trace.exists()


def test_it_is_judged_before_it_is_loaded(repository: Path) -> None:
    def judged(**more: Any) -> Loaded | None:
        return identify(ModelConfig(model=str(repository), device="cpu", **more), lambda _: None)

    with pytest.raises(ModelLoadError, match="pass --trust-remote-code"):
        judged()
    assert judged(trust_remote_code=True) is None


def test_the_image_is_the_one_that_its_own_call_gives(repository: Path) -> None:
    runner = load(str(repository), trust_remote_code=True)
    card = runner._model.card
    assert (card.pipeline, card.kind, card.batchable) == ("HunyuanImage3ForCausalMM", Kind.IMAGE, False)
    assert (card.defaults.num_inference_steps, card.defaults.guidance_scale) == (50, 7.5)
    assert {"prompt", "height", "width", "num_inference_steps", "guidance_scale", "bot_task"} <= set(card.parameters)
    assert not {"seed", "image_size"} & set(card.parameters)
    steps: list[tuple[int, int]] = []
    request = planned((5, 6), **ASKED, extra={"bot_task": "think"})
    media = runner.execute_model([request], lambda step, total: steps.append((step, total)), lambda: False)[0]
    model = AutoModelForCausalLM.from_pretrained(repository, trust_remote_code=True)
    model.load_tokenizer(str(repository))
    for sample, seed in zip(levels(media), (5, 6), strict=True):
        torch.manual_seed(seed)
        own = model.generate_image("a fox", seed=seed, image_size="32x64", diff_infer_steps=3, diff_guidance_scale=2.0)
        np.testing.assert_array_equal(sample, np.asarray(own))
        assert sample.std() > 15
    assert (levels(media)[0] != levels(media)[1]).any()
    assert steps == [(step, 6) for step in range(1, 7)]


def test_a_size_that_is_not_said_is_the_models_own(repository: Path) -> None:
    runner = load(str(repository), trust_remote_code=True)
    assert levels(run(runner, planned(prompt="x", num_inference_steps=1))[0]).shape == (1, 32, 48, 3)
    runner.sleep()
    runner.wake_up()
    runner.close()


def test_what_the_call_does_not_take_is_said(repository: Path) -> None:
    runner = load(str(repository), trust_remote_code=True)
    with pytest.raises(ForwardError, match="HunyuanImage3ForCausalMM takes no strength"):
        run(runner, planned(prompt="x", strength=0.5))
    with pytest.raises(ForwardError, match=r"takes no extra\.seed"):
        run(runner, planned(prompt="x", extra={"seed": 3}))


def test_a_return_without_an_image_breaks_the_contract(repository: Path) -> None:
    rewrite(repository, "picture = Image", "picture = 'none'  # Image")
    rewrite(repository, "HunyuanImage3ForCausalMM", "Silent")
    runner = load(str(repository), trust_remote_code=True)
    assert "num_inference_steps" not in runner._model.card.parameters  # nobody tells what hides behind **kwargs
    with pytest.raises(MediaContractError, match=r"Silent\.generate_image returned no image"):
        run(runner, planned(prompt="x", extra={"bot_task": None}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"pipeline": "FluxPipeline"}, "is no diffusers pipeline"), ({"custom_pipeline": "mine.py"}, "mine.py")],
)
def test_what_only_a_pipeline_can_have_is_refused(changes: dict[str, Any], words: str, repository: Path) -> None:
    with pytest.raises(Exception, match=words):
        load(str(repository), trust_remote_code=True, **changes)


def test_a_model_without_the_call_says_so(repository: Path) -> None:
    rewrite(repository, "def generate_image", "def generate_text")
    with pytest.raises(ModelLoadError, match="has no generate_image"):
        load(str(repository), trust_remote_code=True)


def test_a_hub_model_is_known_by_its_configuration_and_refused_before_its_weights_are_fetched(
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
    assert levels(run(runner, planned(**ASKED))[0]).shape == (1, 32, 64, 3)
