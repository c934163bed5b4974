"""Prompt embeddings: a text is encoded once, and the pixels are those of encoding it every time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import peft
import pytest
import torch

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.request import Adapter
from omni_cli.worker.memo import PromptMemo
from omni_cli.worker.runner import DiffusersRunner
from tests.worker.conftest import levels, planned, reference, run

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

FIELDS: dict[str, Any] = {"height": 32, "width": 64, "num_inference_steps": 1, "guidance_scale": 3.0}
CLIP = FIELDS | {"num_frames": 5}
MODELS = {"wan": CLIP, "flux": FIELDS, "stable_diffusion": FIELDS, "stable_diffusion_xl": FIELDS, "qwen_image": FIELDS}


def loaded(folder: Path, limit: int = 64 << 20) -> tuple[DiffusersRunner, Any, list[tuple[int, ...]]]:
    """A runner, its pipeline, and the shapes its text encoders have been called with, which grows."""
    runner, seen = DiffusersRunner(), list[tuple[int, ...]]()
    runner.load(ModelConfig(model=str(folder), device="cpu"), EngineConfig(prompt_cache_bytes=limit), lambda _: None)
    pipeline = runner._model.pipeline
    for name, part in pipeline.components.items():
        if name.startswith("text_encoder") and part is not None:
            part.register_forward_pre_hook(
                lambda module, args, keywords: seen.append(tuple((args or tuple(keywords.values()))[0].shape)),
                with_kwargs=True,
            )
    return runner, pipeline, seen


@pytest.mark.parametrize("name", MODELS)
def test_a_second_seed_of_a_prompt_encodes_nothing_and_looks_as_if_it_had(
    name: str, tiny_model: Callable[[str], Path], plain_of: Callable[..., Any]
) -> None:
    runner, _, seen = loaded(tiny_model(name))
    fields = {"prompt": "a red circle", **MODELS[name]}
    run(runner, planned((1,), **fields))
    once = len(seen)
    assert once > 0
    second = run(runner, planned((2,), 1, **fields))[0]
    third = run(runner, planned((3,), 2, **fields))[0]
    assert len(seen) == once
    for media, seed in ((second, 2), (third, 3)):
        np.testing.assert_array_equal(levels(media), reference(plain_of(name), seed, **fields))


def test_a_negative_prompt_is_encoded_once_for_all_prompts(tiny_model: Callable[[str], Path]) -> None:
    runner, _, seen = loaded(tiny_model("wan"))
    for number, text in enumerate(["a red circle", "a blue square", "a green triangle"]):
        run(runner, planned((1,), number, prompt=text, negative_prompt="blurry", **CLIP))
    assert len(seen) == 3 + 1


@pytest.mark.parametrize(
    ("change", "fresh"),
    [
        ({"prompt": "a blue square"}, True),
        ({"extra": {"max_sequence_length": 8}}, True),
        ({"num_inference_steps": 2}, False),
    ],
)
def test_what_changes_the_embeddings_encodes_again_and_what_does_not_does_not(
    change: dict[str, Any], fresh: bool, tiny_model: Callable[[str], Path]
) -> None:
    runner, _, seen = loaded(tiny_model("wan"))
    run(runner, planned(prompt="a red circle", **CLIP))
    before = len(seen)
    run(runner, planned((5,), 1, **{"prompt": "a red circle", **CLIP, **change}))
    assert (len(seen) > before) is fresh


def test_adapters_and_sleep_make_it_encode_again(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    trained = diffusers.StableDiffusionPipeline.from_pretrained(tiny_model("stable_diffusion"))
    trained.unet.add_adapter(peft.LoraConfig(r=2, init_lora_weights=False, target_modules=["to_q", "to_v"]))
    trained.save_lora_weights(str(tmp_path), unet_lora_layers=peft.get_peft_model_state_dict(trained.unet))
    lora = [Adapter(path=str(tmp_path / "pytorch_lora_weights.safetensors"))]
    runner, _, seen = loaded(tiny_model("stable_diffusion"))
    fields = {"prompt": "a red circle", **FIELDS}
    counts = []
    for number, adapters in enumerate([None, None, lora, lora, None]):
        run(runner, planned((5,), number, lora=adapters, **fields))
        counts.append(len(seen))
    once = counts[0]
    assert counts == [once, once, 2 * once, 2 * once, 3 * once]
    runner.sleep()
    runner.wake_up()
    run(runner, planned((5,), 3, **fields))
    assert len(seen) == 4 * once


def test_a_limit_of_nothing_keeps_nothing(tiny_model: Callable[[str], Path]) -> None:
    runner, _, seen = loaded(tiny_model("wan"), limit=0)
    run(runner, planned(prompt="a red circle", **CLIP))
    once = len(seen)
    run(runner, planned((5,), 1, prompt="a red circle", **CLIP))
    assert len(seen) == 2 * once


class Texts:
    """A pipeline of diffusers as far as a memo can see."""

    __module__ = "diffusers.made_up"

    def __init__(self) -> None:
        self.encoded: list[object] = []

    def encode_prompt(self, prompt: object, **more: object) -> tuple[torch.Tensor, None]:
        self.encoded.append(prompt)
        return torch.full((4,), float(len(self.encoded))), None


def test_the_least_used_goes_first_and_the_bytes_stay_within_the_limit() -> None:
    pipeline, memo = Texts(), PromptMemo(40)  # two results of 16 bytes
    memo.install(pipeline)
    for text in ("a", "b", "a", "c", "a", "b"):
        pipeline.encode_prompt(text)
        assert memo.nbytes <= 40
    assert pipeline.encoded == ["a", "b", "c", "b"]


def test_a_result_that_the_pipeline_writes_into_is_not_spoiled() -> None:
    pipeline, memo = Texts(), PromptMemo(1000)
    memo.install(pipeline)
    for _ in range(3):
        values = pipeline.encode_prompt(["a"])[0]
        assert values.tolist() == [1.0] * 4
        values.zero_()


def test_calls_with_tensors_or_generators_are_never_remembered_and_1_is_not_true() -> None:
    pipeline, memo = Texts(), PromptMemo(1000)
    memo.install(pipeline)
    for more in ({"image": torch.zeros(1)}, {"generator": torch.Generator()}, {"clip_skip": 1}, {"clip_skip": True}):
        pipeline.encode_prompt("a", **more)
    assert len(pipeline.encoded) == 4
    assert memo.nbytes == 32


def test_a_class_from_elsewhere_is_left_alone() -> None:
    class Elsewhere(Texts):
        __module__ = "transformers_modules.theirs"

    pipeline = Elsewhere()
    PromptMemo(1000).install(pipeline)
    pipeline.encode_prompt("a")
    pipeline.encode_prompt("a")
    assert len(pipeline.encoded) == 2
