"""Built-in cards against the source of diffusers, and their lookup without it."""

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
from omni_cli.models.registry import card_table, known_card, local_pipeline_class, real_path

NAMES = sorted(card_table().cards)
SET_BY_THE_RUNNER = {"num_frames": ("num_frames", "video_length", "frames")}


def card(name: str, model: ModelConfig | None = None) -> Card:
    builtin = known_card(name, model)
    assert builtin is not None
    return builtin


def source(name: str) -> str:
    module = inspect.getmodule(getattr(diffusers, name))
    assert module is not None
    return inspect.getsource(module)


@pytest.mark.parametrize("name", NAMES)
def test_keywords_of_a_card_exist_in_its_pipeline(name: str) -> None:
    signature = inspect.signature(getattr(diffusers, name).__call__).parameters
    builtin = card(name)
    assert builtin.parameters
    assert set(builtin.parameters) <= set(signature)
    assert set(builtin.call) <= set(signature)
    for field in set(_stated_defaults(builtin)) - {"fps"}:
        assert set(SET_BY_THE_RUNNER.get(field, (field,))) & set(signature), field


def _stated_defaults(builtin: Card) -> dict[str, object]:
    """Return the defaults that the card gives."""
    fields = builtin.defaults.__struct_fields__
    return {f: getattr(builtin.defaults, f) for f in fields if getattr(builtin.defaults, f) is not None}


@pytest.mark.parametrize("name", NAMES)
def test_defaults_of_a_card_fit_its_size_rule(name: str) -> None:
    for builtin in [
        card(name),
        *(card(name, ModelConfig(model=id_)) for id_ in ("a/schnell", "a/CogVideoX1.5-5B")),
    ]:
        sizes, defaults = builtin.sizes, builtin.defaults
        assert all(sizes.size_ok(side) for side in (defaults.height, defaults.width) if side is not None)
        assert defaults.num_frames is None or sizes.frames_ok(defaults.num_frames)


@pytest.mark.parametrize("name", NAMES)
def test_size_rule_meets_what_the_source_demands(name: str) -> None:
    text = source(name)
    demanded = [int(number) for number in re.findall(r"divisible by (\d+) but are", text)]
    if re.search(r"divisible by \{self\.vae_scale_factor \* 2\}", text):
        demanded.append(16)
    assert all(card(name).sizes.multiple % number == 0 for number in demanded)


@pytest.mark.parametrize("name", [name for name in NAMES if card(name).kind is Kind.VIDEO])
def test_fps_is_that_of_the_source(name: str) -> None:
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
    defaults = _stated_defaults(card(name))
    for field in ("num_inference_steps", "guidance_scale", "true_cfg_scale", "strength"):
        if field in defaults:
            assert defaults[field] == signature[field].default


@pytest.mark.parametrize("name", NAMES)
def test_output_type_is_one_that_the_pipeline_accepts(name: str) -> None:
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
def test_variant_is_selected_by_id(pipeline: str, model: str, expected: tuple[float | None, ...]) -> None:
    d = card(pipeline, ModelConfig(model=model)).defaults
    assert (d.height, d.width, d.num_frames, d.fps, d.num_inference_steps, d.guidance_scale) == expected


def test_variant_is_the_same_for_every_spelling_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "flux-schnell"
    folder.mkdir()
    (tmp_path / "latest").symlink_to(folder)
    monkeypatch.chdir(folder)
    for spelling in (".", "./", "../flux-schnell", "../flux-schnell/", str(folder), "../latest", f"{tmp_path}/latest/"):
        assert card("FluxPipeline", ModelConfig(model=spelling)).defaults.num_inference_steps == 4, spelling


def test_real_path_keeps_the_name_of_a_file_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs/abc").write_bytes(b"")
    (tmp_path / "w.safetensors").symlink_to("blobs/abc")
    assert real_path("blobs/../w.safetensors", tmp_path) == str(tmp_path / "w.safetensors")
    assert (real_path("demo", tmp_path), real_path("owner/name", tmp_path)) == ("demo", "owner/name")


def test_variant_is_selected_by_the_index(tmp_path: Path) -> None:
    model = ModelConfig(model=str(tmp_path))
    for expand, multiple, fps in ((False, 16, 16.0), (True, 32, 24.0)):
        index = {"_class_name": "WanPipeline", "expand_timesteps": expand, "vae": ["diffusers", "AutoencoderKLWan"]}
        (tmp_path / "model_index.json").write_text(json.dumps(index))
        (tmp_path / "vae").mkdir(exist_ok=True)
        (tmp_path / "vae" / "config.json").write_text(json.dumps({"scale_factor_spatial": 16 if expand else 8}))
        builtin = card("WanPipeline", model)
        assert (builtin.sizes, builtin.defaults.fps) == (SizeRule(multiple=multiple, frame_step=4, frame_offset=1), fps)


def test_demo_is_recognized_by_its_folder() -> None:
    assert card("WanPipeline", ModelConfig(model=str(WEIGHTS))) == card("WanPipeline", ModelConfig(model="demo"))


def test_unknown_pipeline_has_no_card() -> None:
    assert known_card("NobodysPipeline") is None


def test_pipeline_class_is_read_from_local_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_pipeline_class(ModelConfig(model="demo")) == "WanPipeline"
    assert local_pipeline_class(ModelConfig(model="demo", pipeline="WanVACEPipeline")) == "WanVACEPipeline"
    assert local_pipeline_class(ModelConfig(model=str(tmp_path))) is None
    (tmp_path / "model_index.json").write_text('{"_class_name": ["mine", "MinePipeline"]}')
    assert local_pipeline_class(ModelConfig(model=str(tmp_path))) == "MinePipeline"
    (tmp_path / "model_index.json").write_text("{")
    assert local_pipeline_class(ModelConfig(model=str(tmp_path))) is None
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert local_pipeline_class(ModelConfig(model="nobody/nothing")) is None
    assert local_pipeline_class(ModelConfig(model="../x/../y/z")) is None
    assert local_pipeline_class(ModelConfig(model="owner/na me\x1b")) is None


def test_pipeline_class_of_a_single_file_is_that_of_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text('{"_class_name": "FluxPipeline"}')
    (tmp_path / "m.safetensors").write_bytes(b"")
    assert (
        local_pipeline_class(ModelConfig(model=str(tmp_path / "m.safetensors"), config=str(tmp_path))) == "FluxPipeline"
    )


def test_card_lookup_imports_no_torch() -> None:
    code = (
        "import sys; from omni_cli.config import ModelConfig as M; "
        "from omni_cli.models.registry import known_card, local_pipeline_class; "
        "known_card(local_pipeline_class(M()), M()); local_pipeline_class(M(model='a/b')); "
        "sys.exit(bool({'torch', 'diffusers', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
