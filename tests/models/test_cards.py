"""The cards against diffusers' source, and looking them up without it."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import diffusers
import huggingface_hub.constants
import pytest

from omni_cli.config import ModelConfig
from omni_cli.media import Kind
from omni_cli.models.cards import Card, SizeRule
from omni_cli.models.demo import WEIGHTS
from omni_cli.models.registry import card_for, data, peek

NAMES = sorted(data().cards)
SET_BY_THE_RUNNER = {"num_frames": ("num_frames", "video_length", "frames")}


def card(name: str, model: ModelConfig | None = None) -> Card:
    found = card_for(name, model)
    assert found is not None
    return found


def source(name: str) -> str:
    module = inspect.getmodule(getattr(diffusers, name))
    assert module is not None
    return inspect.getsource(module)


@pytest.mark.parametrize("name", NAMES)
def test_every_keyword_of_a_card_is_one_of_its_pipeline(name: str) -> None:
    signature = inspect.signature(getattr(diffusers, name).__call__).parameters
    found = card(name)
    assert found.parameters
    assert set(found.parameters) <= set(signature)
    assert set(found.call) <= set(signature)
    for field in set(_given(found)) - {"fps"}:
        assert set(SET_BY_THE_RUNNER.get(field, (field,))) & set(signature), field


def _given(found: Card) -> dict[str, object]:
    """Defaults that the card states."""
    fields = found.defaults.__struct_fields__
    return {f: getattr(found.defaults, f) for f in fields if getattr(found.defaults, f) is not None}


@pytest.mark.parametrize("name", NAMES)
def test_defaults_keep_the_cards_own_size_rule(name: str) -> None:
    for found in [
        card(name),
        *(card(name, ModelConfig(model=id_)) for id_ in ("demo", "a/schnell", "a/CogVideoX1.5-5B")),
    ]:
        sizes, defaults = found.sizes, found.defaults
        assert all(sizes.size_ok(side) for side in (defaults.height, defaults.width) if side is not None)
        assert defaults.num_frames is None or sizes.frames_ok(defaults.num_frames)


@pytest.mark.parametrize("name", NAMES)
def test_sizes_divide_by_what_the_source_demands(name: str) -> None:
    text = source(name)
    demanded = [int(number) for number in re.findall(r"divisible by (\d+) but are", text)]
    if re.search(r"divisible by \{self\.vae_scale_factor \* 2\}", text):
        demanded.append(16)
    assert all(card(name).sizes.multiple % number == 0 for number in demanded)


@pytest.mark.parametrize("name", [name for name in NAMES if card(name).kind is Kind.VIDEO])
def test_the_rate_is_the_one_of_the_source(name: str) -> None:
    fps = card(name).defaults.fps
    assert fps is not None
    signature = inspect.signature(getattr(diffusers, name).__call__).parameters
    stated = [signature[word].default for word in ("fps", "frame_rate") if word in signature]
    stated += [int(number) for number in re.findall(r"fps ?= ?(\d+)", source(name))]
    # HunyuanVideo 1.5's text-to-video example keeps 1.0's rate; the model and its image-to-video example have 24.
    assert not stated or fps in stated or name == "HunyuanVideo15Pipeline"


@pytest.mark.parametrize("name", NAMES)
def test_steps_and_guidance_are_those_of_the_signature(name: str) -> None:
    signature = inspect.signature(getattr(diffusers, name).__call__).parameters
    found = _given(card(name))
    for field in ("num_inference_steps", "guidance_scale", "true_cfg_scale", "strength"):
        if field in found:
            assert found[field] == signature[field].default


@pytest.mark.parametrize("name", NAMES)
def test_a_pipeline_that_checks_the_output_type_is_asked_for_one_on_its_list(name: str) -> None:
    checks = "output_type not in" in inspect.getsource(getattr(diffusers, name))
    has_processor = "postprocess" in inspect.getsource(getattr(diffusers, name))
    assert (card(name).output_type == "device") == (has_processor and not checks)


@pytest.mark.parametrize(
    ("pipeline", "model", "expected"),
    [
        ("WanPipeline", "demo", (64, 64, 9, 8.0, 8, 3.0)),
        ("WanPipeline", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers", (480, 832, 81, 16.0, 50, 5.0)),
        ("CogVideoXPipeline", "zai-org/CogVideoX1.5-5B", (768, 1360, 81, 16.0, 50, 6.0)),
        ("FluxPipeline", "black-forest-labs/FLUX.1-schnell", (1024, 1024, None, None, 4, 0.0)),
        ("StableDiffusionPipeline", "stabilityai/stable-diffusion-2-1", (768, 768, None, None, 50, 7.5)),
        ("StableDiffusionPipeline", "stabilityai/stable-diffusion-2-1-base", (512, 512, None, None, 50, 7.5)),
    ],
)
def test_variants_are_told_by_id(pipeline: str, model: str, expected: tuple[float | None, ...]) -> None:
    d = card(pipeline, ModelConfig(model=model)).defaults
    assert (d.height, d.width, d.num_frames, d.fps, d.num_inference_steps, d.guidance_scale) == expected


def test_a_variant_is_told_by_the_index(tmp_path: Path) -> None:
    model = ModelConfig(model=str(tmp_path))
    for expand, multiple, fps in ((False, 16, 16.0), (True, 32, 24.0)):
        (tmp_path / "model_index.json").write_text(
            json.dumps({"_class_name": "WanPipeline", "expand_timesteps": expand})
        )
        found = card("WanPipeline", model)
        assert (found.sizes, found.defaults.fps) == (SizeRule(multiple=multiple, frame_step=4, frame_offset=1), fps)


def test_the_demo_is_known_by_its_folder_too() -> None:
    assert card("WanPipeline", ModelConfig(model=str(WEIGHTS))) == card("WanPipeline", ModelConfig(model="demo"))


def test_an_unknown_pipeline_has_no_card() -> None:
    assert card_for("NobodysPipeline") is None


def test_peek_reads_what_is_here_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert peek(ModelConfig(model="demo")) == "WanPipeline"
    assert peek(ModelConfig(model="demo", pipeline="WanVACEPipeline")) == "WanVACEPipeline"
    assert peek(ModelConfig(model=str(tmp_path))) is None
    (tmp_path / "model_index.json").write_text('{"_class_name": ["mine", "MinePipeline"]}')
    assert peek(ModelConfig(model=str(tmp_path))) == "MinePipeline"
    (tmp_path / "model_index.json").write_text("{")
    assert peek(ModelConfig(model=str(tmp_path))) is None
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert peek(ModelConfig(model="nobody/nothing")) is None
    assert peek(ModelConfig(model="../x/../y/z")) is None
    assert peek(ModelConfig(model="owner/na me\x1b")) is None


def test_peek_takes_the_configuration_of_a_single_file(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text('{"_class_name": "FluxPipeline"}')
    (tmp_path / "m.safetensors").write_bytes(b"")
    assert peek(ModelConfig(model=str(tmp_path / "m.safetensors"), config=str(tmp_path))) == "FluxPipeline"


def test_looking_up_a_card_imports_no_torch() -> None:
    code = (
        "import sys; from omni_cli.config import ModelConfig as M; from omni_cli.models.registry import card_for, peek; "
        "card_for(peek(M()), M()); peek(M(model='a/b')); "
        "sys.exit(bool({'torch', 'diffusers', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
