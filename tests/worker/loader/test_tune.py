"""Tuning flags give the same bytes as diffusers' own calls, and name what a pipeline does not support."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import gguf
import numpy as np
import pytest
import torch
from diffusers.models.attention_dispatch import _AttentionBackendRegistry, attention_backend
from safetensors.torch import load_file

from omni_cli.config import EngineConfig, ModelConfig, Tuning
from omni_cli.errors import ModelLoadError
from omni_cli.models.demo import WEIGHTS
from omni_cli.worker.runner import DiffusersRunner
from tests.factories import planned
from tests.worker.conftest import levels, plain, reference, run

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

SMALL: dict[str, Any] = {"prompt": "a red circle", "height": 32, "width": 64, "num_inference_steps": 4}
DEMO = SMALL | {"height": 64, "num_frames": 5, "guidance_scale": 3.0}
CLIP = SMALL | {"num_frames": 5, "guidance_scale": 3.0}


def tuned(folder: Path, **tuning: Any) -> DiffusersRunner:
    runner = DiffusersRunner()
    model = ModelConfig(model=str(folder), device="cpu", tuning=Tuning(**tuning))
    runner.load(model, EngineConfig(), lambda _: None)
    return runner


def with_scheduler(pipeline: Any) -> None:
    pipeline.scheduler = diffusers.DPMSolverMultistepScheduler.from_config(
        pipeline.scheduler.config, use_karras_sigmas=True
    )


def with_shift(pipeline: Any) -> None:
    pipeline.scheduler = type(pipeline.scheduler).from_config(pipeline.scheduler.config, flow_shift=7.0)


def with_flow_scheduler(pipeline: Any) -> None:
    pipeline.scheduler = diffusers.FlowMatchEulerDiscreteScheduler.from_config(pipeline.scheduler.config, shift=2.0)


def with_cache(pipeline: Any) -> None:
    pipeline.transformer.enable_cache(diffusers.FirstBlockCacheConfig(threshold=5.0))


def with_broadcast(pipeline: Any) -> None:
    pipeline.transformer.enable_cache(
        diffusers.PyramidAttentionBroadcastConfig(
            spatial_attention_block_skip_range=2,
            spatial_attention_timestep_skip_range=(1, 999),
            current_timestep_callback=lambda: pipeline.current_timestep,
        )
    )


def with_casting(pipeline: Any) -> None:
    pipeline.transformer.enable_layerwise_casting(storage_dtype=torch.float8_e4m3fn, compute_dtype=torch.float32)


def with_math_attention(pipeline: Any) -> None:
    with attention_backend("_native_math"):  # restores the default of the process for the tests that follow
        pipeline.transformer.set_attention_backend("_native_math")


def _named(value: object) -> str:
    """Return an id that is the same in every process, unlike the text of a function."""
    return value.__name__ if callable(value) else str(value)[:40]  # type: ignore[attr-defined]


PAB = {"spatial_attention_block_skip_range": 2, "spatial_attention_timestep_skip_range": [1, 999]}
CASES: list[tuple[str, dict[str, Any], dict[str, Any], Callable[[Any], None], bool]] = [
    (
        "stable_diffusion",
        SMALL,
        {"scheduler": "DPMSolverMultistepScheduler", "scheduler_config": {"use_karras_sigmas": True}},
        with_scheduler,
        True,
    ),
    ("wan", CLIP, {"flow_shift": 7.0}, with_shift, True),
    ("demo", DEMO, {"scheduler": "FlowMatchEulerDiscreteScheduler", "flow_shift": 2.0}, with_flow_scheduler, True),
    ("demo", DEMO, {"cache": "first-block", "cache_config": {"threshold": 5.0}}, with_cache, True),
    ("demo", DEMO, {"cache": "pyramid-attention-broadcast", "cache_config": PAB}, with_broadcast, True),
    ("wan", CLIP, {"layerwise_casting": "float8_e4m3fn"}, with_casting, True),
    ("wan", CLIP, {"attention_backend": "_native_math"}, with_math_attention, False),
    ("stable_diffusion", SMALL, {"vae_tiling": True}, lambda pipeline: pipeline.vae.enable_tiling(), False),
    ("stable_diffusion", SMALL, {"vae_slicing": True}, lambda pipeline: pipeline.vae.enable_slicing(), False),
]


@pytest.mark.parametrize(("name", "fields", "tuning", "apply_by_hand", "visible"), CASES, ids=_named)
def test_a_setting_gives_the_same_bytes_as_diffusers(
    name: str,
    fields: dict[str, Any],
    tuning: dict[str, Any],
    apply_by_hand: Callable[[Any], None],
    visible: bool,
    tiny_model: Callable[[str], Path],
) -> None:
    folder = WEIGHTS if name == "demo" else tiny_model(name)
    untouched = reference(plain(folder), 5, **fields)
    pipeline = plain(folder)
    apply_by_hand(pipeline)
    expected = reference(pipeline, 5, **fields)
    runner = tuned(folder, **tuning)
    for number in range(2):  # twice, because a cache must be reset after each request
        np.testing.assert_array_equal(levels(run(runner, planned(index=number, seeds=(5,), **fields))[0]), expected)
    if visible:
        assert (expected != untouched).any()


def test_attention_backend_and_vae_switches_reach_the_modules(tiny_model: Callable[[str], Path]) -> None:
    pipeline = tuned(tiny_model("wan"), attention_backend="_native_math", vae_tiling=True)._model.pipeline
    assert pipeline.vae.use_tiling
    backends = {
        module.processor._attention_backend.value
        for module in pipeline.transformer.modules()
        if hasattr(module, "processor")
    }
    assert backends == {"_native_math"}


def test_the_attention_backend_of_one_model_does_not_change_the_next_model(tiny_model: Callable[[str], Path]) -> None:
    before = levels(run(tuned(tiny_model("wan")), planned(**CLIP))[0])
    tuned(tiny_model("wan"), attention_backend="_native_math")
    assert _AttentionBackendRegistry._active_backend.value == "native"
    np.testing.assert_array_equal(levels(run(tuned(tiny_model("wan")), planned(**CLIP))[0]), before)


def test_compile_compiles_the_blocks_of_the_denoiser(tiny_model: Callable[[str], Path]) -> None:
    pipeline = tuned(tiny_model("wan"), compile=True)._model.pipeline
    assert all(block._compiled_call_impl is not None for block in pipeline.transformer.blocks)


def test_a_component_is_loaded_from_its_own_file(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tiny_model("flux")
    weights = load_file(folder / "transformer" / "diffusion_pytorch_model.safetensors")
    writer = gguf.GGUFWriter(tmp_path / "t.gguf", "flux")
    for name, tensor in weights.items():
        writer.add_tensor(name, (tensor * 1.5 if tensor.ndim > 1 else tensor).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    fields = SMALL | {"guidance_scale": 3.0}
    pipeline = plain(folder)
    with torch.no_grad():
        for parameter in pipeline.transformer.parameters():
            if parameter.ndim > 1:
                parameter.mul_(1.5)
    runner = tuned(folder, components={"transformer": str(tmp_path / "t.gguf")})
    actual, expected = levels(run(runner, planned(**fields))[0]), reference(pipeline, 5, **fields)
    assert np.abs(actual.astype(int) - expected.astype(int)).max() <= 1
    untuned = tuned(folder)
    assert runner._model.info.revision != untuned._model.info.revision
    assert np.abs(actual.astype(int) - levels(run(untuned, planned(**fields))[0]).astype(int)).max() > 3


REJECTED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("wan", {"scheduler": "NoSuchScheduler"}, ["--scheduler 'NoSuchScheduler'", "diffusers has no such scheduler"]),
    ("wan", {"scheduler": "DDPMWuerstchenScheduler"}, ["not for WanPipeline", "UniPCMultistepScheduler"]),
    ("wan", {"scheduler_config": {"flowshift": 3}}, ["has no 'flowshift'", "flow_shift"]),
    (
        "stable_diffusion",
        {"scheduler": "DDIMScheduler", "flow_shift": 3.0},
        ["--flow-shift", "DDIMScheduler"],
    ),
    ("wan", {"attention_backend": "flashy"}, ["no such backend", "native"]),
    (
        "wan",
        {"cache": "first-block", "cache_config": {"treshold": 1}},
        ["FirstBlockCacheConfig has no 'treshold'", "threshold"],
    ),
    ("wan", {"cache_config": {"threshold": 1}}, ["needs --cache"]),
    ("stable_diffusion", {"cache": "first-block"}, ["unet is UNet2DConditionModel", "takes no step cache"]),
    ("ddim", {"compile": True}, ["unet is UNet2DModel", "no repeated blocks"]),
    ("wan", {"quantization": "fp3"}, ["no such backend", "bitsandbytes_8bit"]),
    ("wan", {"quantize": ("transformer",)}, ["need --quantization"]),
    ("wan", {"offload": "model"}, ["--offload model", "cpu"]),
    (
        "wan",
        {"components": {"transformer": "none.gguf"}},
        ["--component transformer=none.gguf", "must be an existing file"],
    ),
    ("ddim", {"vae_tiling": True}, ["--vae-tiling", "no such component"]),
]


@pytest.mark.parametrize(("name", "tuning", "words"), REJECTED, ids=_named)
def test_an_unsupported_setting_is_an_error_that_lists_what_is_supported(
    name: str, tuning: dict[str, Any], words: list[str], tiny_model: Callable[[str], Path]
) -> None:
    with pytest.raises(ModelLoadError) as caught:
        tuned(tiny_model(name), **tuning)
    for word in words:
        assert word in str(caught.value)


def test_all_problems_that_need_no_model_are_reported_together(tmp_path: Path) -> None:
    runner = DiffusersRunner()
    broken = Tuning(scheduler="Nope", attention_backend="nope", quantization="nope", cache_config={"a": 1})
    with pytest.raises(ModelLoadError) as caught:
        runner.load(ModelConfig(model="demo", device="cpu", tuning=broken), EngineConfig(), lambda _: None)
    assert len(str(caught.value).splitlines()) == 4
