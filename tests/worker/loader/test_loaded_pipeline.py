"""Loading a model: what is accepted, what is rejected with which message, and what is recorded."""

import shutil
from pathlib import Path

import pytest
import torch

from omni_cli.config import ModelConfig
from omni_cli.errors import ModelLoadError, UsageError
from omni_cli.models.cards import SizeRule
from omni_cli.worker.loader import load
from tests.worker.loader.conftest import Tiny, load_quietly


def test_a_folder_is_loaded_with_its_processors_card_and_versions(tiny_model: Tiny) -> None:
    steps: list[str] = []
    folder = str(tiny_model("wan"))
    loaded = load(ModelConfig(model=folder, device="cpu"), steps.append)
    assert (loaded.info.id, loaded.info.pipeline, loaded.info.dtype) == (folder, "WanPipeline", "float32")
    assert {"transformer", "vae", "text_encoder", "tokenizer", "scheduler"} <= set(steps)
    assert loaded.device == torch.device("cpu")
    assert len(loaded.processors) == 1
    assert loaded.pipeline.video_processor is loaded.processors[0]
    assert loaded.card.sizes == SizeRule(multiple=16, frame_step=4, frame_offset=1)
    assert "guidance_scale_2" in loaded.card.parameters
    assert loaded.loaded_message.versions["torch"].startswith(torch.__version__.partition("+")[0])


def test_the_demo_has_its_own_defaults() -> None:
    loaded = load_quietly("demo")
    defaults = loaded.card.defaults
    assert (defaults.height, defaults.num_frames, defaults.num_inference_steps) == (64, 9, 8)
    assert loaded.info.id == "demo"


def test_wan_with_a_timestep_per_token_has_another_size_rule(tiny_model: Tiny) -> None:
    card = load_quietly(str(tiny_model("wan_ti2v"))).card
    assert (card.sizes.multiple, card.defaults.fps) == (32, 24.0)


def test_the_dtype_is_passed_to_the_loader_so_that_buffers_keep_theirs(tiny_model: Tiny) -> None:
    transformer = load_quietly(str(tiny_model("wan")), dtype="bf16").pipeline.transformer
    assert transformer.dtype == torch.bfloat16
    floats = {buffer.dtype for buffer in transformer.rope.buffers()}
    assert torch.bfloat16 not in floats  # .to(dtype) would have cast the rotary tables too


def test_loading_prints_nothing(tiny_model: Tiny, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    load_quietly(str(tiny_model("stable_diffusion_3")))
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "%|" not in printed.err  # no progress bar


def test_weights_that_exist_only_as_pickles_are_rejected(copy_of: Tiny) -> None:
    folder = copy_of("ddim")
    (folder / "unet" / "diffusion_pytorch_model.safetensors").rename(folder / "unet" / "diffusion_pytorch_model.bin")
    with pytest.raises(ModelLoadError, match=r"unet has only diffusion_pytorch_model\.bin, a pickle.*convert it"):
        load_quietly(str(folder))


def test_a_folder_without_an_index_is_rejected_with_a_hint_at_its_single_file(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"has no model_index\.json"):
        load_quietly(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelLoadError, match=r"if model\.safetensors is a whole model"):
        load_quietly(str(tmp_path))


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"_class_name": 3}'])
def test_an_invalid_index_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text(text)
    with pytest.raises(ModelLoadError, match=r"model_index\.json"):
        load_quietly(str(tmp_path))


def test_a_damaged_weight_file_is_a_load_error(copy_of: Tiny) -> None:
    folder = copy_of("ddim")
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(ModelLoadError, match=r"unet/diffusion_pytorch_model\.safetensors is cut short"):
        load_quietly(str(folder))


def test_inner_cause_of_a_loader_is_given_once(copy_of: Tiny) -> None:
    folder = copy_of("ddim")
    (folder / "unet" / "config.json").write_text('{"sample_size": ')
    with pytest.raises(
        ModelLoadError, match=r"cannot be loaded: OSError: .*\(JSONDecodeError: Expecting value"
    ) as raised:
        load_quietly(str(folder))
    assert str(raised.value).count("Expecting value") == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("./nowhere/model", "no such folder or file"),
        ("a/b/c", "no such folder or file"),
        ("owner/na me", "no such folder or file"),
        ("nowhere.safetensors", "no such folder or file"),
        ("model.ckpt", "pickles"),
        ("\x1b[31mred", "no such folder or file"),
    ],
)
def test_a_name_that_is_no_folder_file_or_hub_id_is_an_error(name: str, words: str) -> None:
    with pytest.raises(ModelLoadError, match=words) as caught:
        load_quietly(name)
    assert "\x1b" not in str(caught.value)


def test_a_dtype_device_or_pipeline_that_does_not_exist_is_an_error(tiny_model: Tiny) -> None:
    folder = str(tiny_model("ddim"))
    with pytest.raises(ModelLoadError, match="--dtype 'int8' is not a floating dtype"):
        load_quietly(folder, dtype="int8")
    with pytest.raises(UsageError, match="--device warp"):
        load_quietly(folder, device="warp")
    with pytest.raises(ModelLoadError, match="--pipeline 'NoPipeline'"):
        load_quietly(folder, pipeline="NoPipeline")
    with pytest.raises(ModelLoadError, match="--pipeline 'UNet2DModel'"):
        load_quietly(folder, pipeline="UNet2DModel")


def test_the_revision_changes_with_one_weight_and_not_with_the_folder(copy_of: Tiny, tiny_model: Tiny) -> None:
    before = load_quietly(str(tiny_model("ddim"))).info.revision
    folder = copy_of("ddim")
    assert load_quietly(str(folder)).info.revision == before
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-5] ^= 1
    weights.write_bytes(data)
    after = load_quietly(str(folder)).info.revision
    assert after is not None
    assert after.startswith("sha256:")
    assert after != before


def test_the_revision_of_a_folder_in_the_hub_cache_is_its_commit(copy_of: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "snapshots" / ("a1" * 20)
    shutil.move(copy_of("ddim"), folder)
    assert load_quietly(str(folder)).info.revision == "a1" * 20
