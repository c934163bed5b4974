"""A model's own sizes, frames and steps: from the configuration in its folder, over the card of its class."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from omni_cli.config import ModelConfig
from omni_cli.errors import ModelLoadError
from omni_cli.media import Kind
from omni_cli.models.cards import Card, SizeRule
from omni_cli.models.demo import WEIGHTS
from omni_cli.models.model_defaults import call_values, full_size, pipeline_instance
from omni_cli.models.output_fields import field_kind, returned_fields
from omni_cli.models.registry import card_table, known_card, local_pipeline_class

VAE = {"block_out_channels": [128, 256, 512, 512], "latent_channels": 4}
SD = {"unet": "UNet2DConditionModel", "vae": "AutoencoderKL", "scheduler": "EulerDiscreteScheduler"}


def write_model(folder: Path, pipeline: str, classes: dict[str, str], **configs: dict[str, Any]) -> None:
    """Write a folder with the configurations of a model and no weights."""
    index = {"_class_name": pipeline} | {name: ["diffusers", kind] for name, kind in classes.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model_index.json").write_text(json.dumps(index))
    for name, config in configs.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps(config))


def card_of(folder: Path, **more: Any) -> Card:
    model = ModelConfig(model=str(folder), **more)
    name = local_pipeline_class(model)
    assert name is not None
    card = known_card(name, model)
    assert card is not None
    return card


@pytest.mark.parametrize(
    ("pipeline", "sample_size", "side"),
    [
        ("StableDiffusionXLPipeline", 64, 512),  # SDXL-Turbo
        ("StableDiffusionXLPipeline", 128, 1024),
        ("StableDiffusionPipeline", 96, 768),  # Stable Diffusion 2.1
        ("StableDiffusionPipeline", [64, 96], None),
    ],
)
def test_size_is_that_of_the_models_configuration(
    pipeline: str, sample_size: Any, side: int | None, tmp_path: Path
) -> None:
    write_model(tmp_path / "stable-diffusion-2-of-mine", pipeline, SD, unet={"sample_size": sample_size}, vae=VAE)
    defaults = card_of(tmp_path / "stable-diffusion-2-of-mine").defaults
    assert (defaults.height, defaults.width) == ((side, side) if side else (512, 768))
    assert defaults.num_inference_steps == 50


def test_frames_are_those_of_the_models_configuration(tmp_path: Path) -> None:
    parts = {"unet": "UNetSpatioTemporalConditionModel", "vae": "AutoencoderKLTemporalDecoder"}
    write_model(tmp_path, "StableVideoDiffusionPipeline", parts, unet={"num_frames": 14}, vae=VAE)
    assert card_of(tmp_path).defaults.num_frames == 14


def test_keys_that_a_configuration_lacks_have_the_default_of_their_class(tmp_path: Path) -> None:
    parts = {"transformer": "CogVideoXTransformer3DModel", "vae": "AutoencoderKLCogVideoX"}
    write_model(tmp_path, "CogVideoXPipeline", parts, transformer={"sample_height": 96}, vae={})
    defaults = card_of(tmp_path).defaults
    assert (defaults.height, defaults.width, defaults.num_frames) == (768, 720, 49)


def test_copied_demo_keeps_its_own_values_and_a_users_file_counts_more(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(WEIGHTS, tmp_path / "copy", ignore=shutil.ignore_patterns("*.safetensors")))
    copied = card_of(folder).defaults
    assert copied == card_of(WEIGHTS).defaults
    assert (copied.height, copied.width, copied.num_frames, copied.fps) == (64, 64, 9, 8.0)
    (tmp_path / "cards.toml").write_text("[cards.WanPipeline]\ndefaults = { height = 96 }\n")
    mine = card_of(folder, cards=str(tmp_path / "cards.toml")).defaults
    assert (mine.height, mine.width) == (96, 64)
    (folder / "omni-gen.toml").unlink()
    assert (card_of(folder).defaults.height, card_of(folder).defaults.num_frames) == (480, 81)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[cards.WanPipeline]\nsise = {}\n", "omni-gen.toml: cards.WanPipeline: unknown key 'sise'"),
        ("[cards.WanPipeline\n", "omni-gen.toml: Expected ']'"),
        ("cards = 1\n", "omni-gen.toml: has no [cards.ClassName] table"),
        ("#" * (1 << 21), "omni-gen.toml: has more than 1 MiB"),
    ],
)
def test_fault_of_a_models_card_names_the_model_and_the_file(text: str, words: str, tmp_path: Path) -> None:
    write_model(tmp_path, "WanPipeline", {})
    (tmp_path / "omni-gen.toml").write_text(text)
    with pytest.raises(ModelLoadError) as raised:
        card_of(tmp_path)
    assert str(raised.value).startswith(f"--model {str(tmp_path)!r}: {words}")


@pytest.mark.parametrize(
    ("pipeline", "parts", "configs", "expected"),
    [
        # The VAE of four levels scales by 8, one of two by 2; `check_inputs` demands 8 all the same.
        ("StableDiffusionPipeline", SD, {"vae": {"block_out_channels": [8, 8]}}, SizeRule(multiple=8)),
        (
            "FluxPipeline",
            {"vae": "AutoencoderKL", "transformer": "FluxTransformer2DModel"},
            {"vae": {"block_out_channels": [8, 8]}, "transformer": {"patch_size": 1}},
            SizeRule(multiple=4),
        ),
        (
            "WanPipeline",
            {"vae": "AutoencoderKLWan", "transformer": "WanTransformer3DModel"},
            {"vae": {"scale_factor_spatial": 8, "scale_factor_temporal": 8}, "transformer": {"patch_size": [1, 4, 4]}},
            SizeRule(multiple=32, frame_step=8, frame_offset=1),
        ),
        (
            "LTXPipeline",
            {"vae": "AutoencoderKLLTXVideo", "transformer": "LTXVideoTransformer3DModel"},
            {"vae": {"spatial_compression_ratio": 64, "temporal_compression_ratio": 4}},
            SizeRule(multiple=64, frame_step=4, frame_offset=1),
        ),
    ],
)
def test_size_rule_is_that_of_the_models_parts(
    pipeline: str, parts: dict[str, str], configs: dict[str, Any], expected: SizeRule, tmp_path: Path
) -> None:
    write_model(tmp_path, pipeline, parts, **configs)
    assert card_of(tmp_path).sizes == expected


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"sample_size": "64"}',
        '{"sample_size": 1e400}',
        '{"sample_size": -3}',
        '{"sample_size": 64.5}',
        '{"sample_size": 123456789}',
        '{"sample_size": null}',
        '{"sample_size": {"a": 1}}',
        '{"sample_size": ' + "9" * 4000 + "}",
        '{"sample_size": ' + "[" * 100_000,
    ],
)
def test_configuration_without_a_usable_value_leaves_that_of_the_card(content: str, tmp_path: Path) -> None:
    write_model(tmp_path, "StableDiffusionXLPipeline", SD, vae=VAE, unet={})
    (tmp_path / "unet" / "config.json").write_text(content)
    card = card_of(tmp_path)
    assert (card.defaults.height, card.defaults.width, card.sizes.multiple) == (1024, 1024, 8)


def test_kind_rule_and_values_of_each_card_are_those_that_its_class_computes() -> None:
    """With the scales that a class falls back to without a VAE, its card is what it computes."""
    deviations = {}
    for name, raw in card_table().cards.items():
        instance = pipeline_instance(name, None)
        assert instance.source is not None
        fields = returned_fields(instance.source)
        assert not fields or (field_kind(fields[0]) is Kind.VIDEO) == (raw["kind"] == "video"), name
        values = call_values(full_size(instance))
        if raw["sizes"]["multiple"] % math.lcm(1, *values.divisors):
            deviations[name] = sorted(values.divisors)
        stated = {field: value for field, value in raw.get("defaults", {}).items() if field != "fps"}
        differing = {f: v for f, v in (values.signature | values.computed).items() if stated.get(f) not in (v, None)}
        if differing:
            deviations[name] = sorted(differing)
    assert deviations == {
        "StableCascadeCombinedPipeline": ["height", "width"],  # 1024, as its own example
        "HeliosPipeline": ["num_frames"],  # 132 makes 129
    }
