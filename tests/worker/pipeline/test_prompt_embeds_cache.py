"""PromptEmbedsCache encodes each text once and changes no pixel."""

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
from omni_cli.worker.pipeline.prompt_embeds_cache import PromptEmbedsCache
from omni_cli.worker.runner import DiffusersRunner
from tests.factories import planned
from tests.worker.conftest import levels, reference, run

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

FIELDS: dict[str, Any] = {"height": 32, "width": 64, "num_inference_steps": 1, "guidance_scale": 3.0}
CLIP = FIELDS | {"num_frames": 5}
MODELS = {"wan": CLIP, "flux": FIELDS, "stable_diffusion": FIELDS, "stable_diffusion_xl": FIELDS, "qwen_image": FIELDS}


def loaded(folder: Path, cache_bytes: int = 64 << 20) -> tuple[DiffusersRunner, Any, list[tuple[int, ...]]]:
    """Return a runner, its pipeline, and a growing list of the shapes that its text encoders are called with."""
    runner, encoded_shapes = DiffusersRunner(), list[tuple[int, ...]]()
    runner.load(
        ModelConfig(model=str(folder), device="cpu"), EngineConfig(prompt_cache_bytes=cache_bytes), lambda _: None
    )
    pipeline = runner._model.pipeline
    for name, part in pipeline.components.items():
        if name.startswith("text_encoder") and part is not None:
            part.register_forward_pre_hook(
                lambda module, args, keywords: encoded_shapes.append(
                    tuple((args or tuple(keywords.values()))[0].shape)
                ),
                with_kwargs=True,
            )
    return runner, pipeline, encoded_shapes


@pytest.mark.parametrize("name", MODELS)
def test_further_seeds_of_a_prompt_encode_nothing_and_give_the_same_pixels(
    name: str, tiny_model: Callable[[str], Path], plain_of: Callable[..., Any]
) -> None:
    runner, _, encoded_shapes = loaded(tiny_model(name))
    fields = {"prompt": "a red circle", **MODELS[name]}
    run(runner, planned(seeds=(1,), **fields))
    once = len(encoded_shapes)
    assert once > 0
    second = run(runner, planned(index=1, seeds=(2,), **fields))[0]
    third = run(runner, planned(index=2, seeds=(3,), **fields))[0]
    assert len(encoded_shapes) == once
    for media, seed in ((second, 2), (third, 3)):
        np.testing.assert_array_equal(levels(media), reference(plain_of(name), seed, **fields))


def test_a_negative_prompt_is_encoded_once_for_all_prompts(tiny_model: Callable[[str], Path]) -> None:
    runner, _, encoded_shapes = loaded(tiny_model("wan"))
    for number, text in enumerate(["a red circle", "a blue square", "a green triangle"]):
        run(runner, planned(index=number, seeds=(1,), prompt=text, negative_prompt="blurry", **CLIP))
    assert len(encoded_shapes) == 3 + 1


@pytest.mark.parametrize(
    ("change", "fresh"),
    [
        ({"prompt": "a blue square"}, True),
        ({"extra": {"max_sequence_length": 8}}, True),
        ({"num_inference_steps": 2}, False),
    ],
)
def test_only_arguments_of_the_encoder_cause_another_encoding(
    change: dict[str, Any], fresh: bool, tiny_model: Callable[[str], Path]
) -> None:
    runner, _, encoded_shapes = loaded(tiny_model("wan"))
    run(runner, planned(prompt="a red circle", **CLIP))
    before = len(encoded_shapes)
    run(runner, planned(index=1, seeds=(5,), **{"prompt": "a red circle", **CLIP, **change}))
    assert (len(encoded_shapes) > before) is fresh


def test_a_change_of_adapters_and_sleep_clear_the_cache(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    trained = diffusers.StableDiffusionPipeline.from_pretrained(tiny_model("stable_diffusion"))
    trained.unet.add_adapter(peft.LoraConfig(r=2, init_lora_weights=False, target_modules=["to_q", "to_v"]))
    trained.save_lora_weights(str(tmp_path), unet_lora_layers=peft.get_peft_model_state_dict(trained.unet))
    lora = [Adapter(path=str(tmp_path / "pytorch_lora_weights.safetensors"))]
    runner, _, encoded_shapes = loaded(tiny_model("stable_diffusion"))
    fields = {"prompt": "a red circle", **FIELDS}
    counts = []
    for number, adapters in enumerate([None, None, lora, lora, None]):
        run(runner, planned(index=number, seeds=(5,), lora=adapters, **fields))
        counts.append(len(encoded_shapes))
    once = counts[0]
    assert counts == [once, once, 2 * once, 2 * once, 3 * once]
    runner.sleep()
    runner.wake_up()
    run(runner, planned(index=3, seeds=(5,), **fields))
    assert len(encoded_shapes) == 4 * once


def test_a_size_of_0_disables_the_cache(tiny_model: Callable[[str], Path]) -> None:
    runner, _, encoded_shapes = loaded(tiny_model("wan"), cache_bytes=0)
    run(runner, planned(prompt="a red circle", **CLIP))
    once = len(encoded_shapes)
    run(runner, planned(index=1, seeds=(5,), prompt="a red circle", **CLIP))
    assert len(encoded_shapes) == 2 * once


class Texts:
    """A fake diffusers pipeline whose embeddings count the calls."""

    __module__ = "diffusers.made_up"

    def __init__(self) -> None:
        self.encoded: list[object] = []

    def encode_prompt(self, prompt: object, **more: object) -> tuple[torch.Tensor, None]:
        self.encoded.append(prompt)
        return torch.full((4,), float(len(self.encoded))), None


def test_the_least_recently_used_entry_is_evicted_first_and_the_size_stays_within_its_limit() -> None:
    pipeline, cache = Texts(), PromptEmbedsCache(40)  # room for two results of 16 bytes
    cache.attach(pipeline)
    for text in ("a", "b", "a", "c", "a", "b"):
        pipeline.encode_prompt(text)
        assert cache.nbytes <= 40
    assert pipeline.encoded == ["a", "b", "c", "b"]


def test_a_pipeline_that_writes_into_its_embeddings_does_not_change_the_cache() -> None:
    pipeline, cache = Texts(), PromptEmbedsCache(1000)
    cache.attach(pipeline)
    for _ in range(3):
        values = pipeline.encode_prompt(["a"])[0]
        assert values.tolist() == [1.0] * 4
        values.zero_()


def test_calls_with_tensors_or_generators_are_not_cached_and_1_differs_from_true() -> None:
    pipeline, cache = Texts(), PromptEmbedsCache(1000)
    cache.attach(pipeline)
    for more in ({"image": torch.zeros(1)}, {"generator": torch.Generator()}, {"clip_skip": 1}, {"clip_skip": True}):
        pipeline.encode_prompt("a", **more)
    assert len(pipeline.encoded) == 4
    assert cache.nbytes == 32


def test_a_class_outside_of_diffusers_is_not_wrapped() -> None:
    class Elsewhere(Texts):
        __module__ = "transformers_modules.theirs"

    pipeline = Elsewhere()
    PromptEmbedsCache(1000).attach(pipeline)
    pipeline.encode_prompt("a")
    pipeline.encode_prompt("a")
    assert len(pipeline.encoded) == 2
