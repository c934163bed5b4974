"""Loading: what a name means, what is refused and why, what is recorded."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from omni_cli.config import ModelConfig
from omni_cli.errors import ModelLoadError, UsageError
from omni_cli.media import Kind
from omni_cli.models.cards import SizeRule
from omni_cli.worker.loader import LoadedPipeline, fingerprint, load
from tests.tiny import single_file
from tests.worker.conftest import levels, plain, planned, reference, run
from tests.worker.conftest import load as load_runner

Tiny = Callable[[str], Path]


def load_quietly(model: str, **more: Any) -> LoadedPipeline:
    return load(ModelConfig(model=model, device=more.pop("device", "cpu"), **more), lambda _: None)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


@pytest.fixture
def copy_of(tiny_model: Tiny, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a tiny model, to be damaged."""
    return lambda name: Path(shutil.copytree(tiny_model(name), tmp_path / name))


def edit_index(folder: Path, **changes: Any) -> None:
    path = folder / "model_index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_folder_is_loaded_in_place_with_its_seam_card_and_facts(tiny_model: Tiny) -> None:
    steps: list[str] = []
    folder = str(tiny_model("wan"))
    loaded = load(ModelConfig(model=folder, device="cpu"), steps.append)
    assert (loaded.info.id, loaded.info.pipeline, loaded.info.dtype) == (folder, "WanPipeline", "float32")
    assert {"transformer", "vae", "text_encoder", "tokenizer", "scheduler"} <= set(steps)
    assert loaded.device == torch.device("cpu")
    assert len(loaded.seams) == 1
    assert loaded.pipeline.video_processor is loaded.seams[0]
    assert loaded.card.sizes == SizeRule(multiple=16, frame_step=4, frame_offset=1)
    assert "guidance_scale_2" in loaded.card.parameters
    assert loaded.versions["torch"].startswith(torch.__version__.partition("+")[0])


def test_the_demo_has_its_own_defaults() -> None:
    loaded = load_quietly("demo")
    defaults = loaded.card.defaults
    assert (defaults.height, defaults.num_frames, defaults.num_inference_steps) == (64, 9, 8)
    assert loaded.info.id == "demo"


def test_wan_with_a_timestep_per_token_has_another_size_rule(tiny_model: Tiny) -> None:
    card = load_quietly(str(tiny_model("wan_ti2v"))).card
    assert (card.sizes.multiple, card.defaults.fps) == (32, 24.0)


def test_the_dtype_is_given_to_the_loader_so_that_buffers_keep_theirs(tiny_model: Tiny) -> None:
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


def test_a_pipeline_without_a_card_gets_one_from_its_class(tiny_model: Tiny) -> None:
    card = load_quietly(str(tiny_model("ddim"))).card
    assert (card.kind, card.output_type, card.batchable) == (Kind.IMAGE, "np", False)
    assert card.defaults.num_inference_steps == 50
    assert card.defaults.height is None
    assert "generator" in card.parameters


def test_a_derived_card_agrees_with_the_written_one(tiny_model: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    written = {name: load_quietly(str(tiny_model(name))).card for name in ("ltx", "flux")}
    monkeypatch.setattr("omni_cli.worker.loader.derive.card_for", lambda *_: None)
    for name, card in written.items():
        derived = load_quietly(str(tiny_model(name))).card
        assert (derived.kind, derived.sizes, derived.output_type) == (card.kind, card.sizes, card.output_type)
        assert derived.defaults.num_frames == card.defaults.num_frames
        assert derived.defaults.num_inference_steps == card.defaults.num_inference_steps


def test_the_revision_changes_with_one_weight_and_not_with_the_place(copy_of: Tiny, tiny_model: Tiny) -> None:
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


def test_a_big_file_is_sampled_to_its_very_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "WHOLE_BYTES", 1000)
    monkeypatch.setattr(fingerprint, "BLOCK_BYTES", 64)
    file = tmp_path / "big.safetensors"
    hashes = set()
    for place in (None, 0, 5000, 9999):
        data = bytearray(10_000)
        if place is not None:
            data[place] = 1
        file.write_bytes(data)
        hashes.add(fingerprint.content_hash(file))
    assert len(hashes) >= 3  # the byte in the middle may lie between blocks; first and last never do


def test_a_folder_of_the_hub_cache_is_its_commit(copy_of: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "snapshots" / ("a1" * 20)
    shutil.move(copy_of("ddim"), folder)
    assert load_quietly(str(folder)).info.revision == "a1" * 20


def test_weights_that_come_only_as_pickles_are_refused_with_the_reason(copy_of: Tiny) -> None:
    folder = copy_of("ddim")
    (folder / "unet" / "diffusion_pytorch_model.safetensors").rename(folder / "unet" / "diffusion_pytorch_model.bin")
    with pytest.raises(ModelLoadError, match=r"unet has only diffusion_pytorch_model\.bin, a pickle.*convert it"):
        load_quietly(str(folder))


def test_code_of_a_model_is_not_run_unless_it_is_trusted(
    copy_of: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffusers.utils.dynamic_modules_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("sys.path", [*sys.path])
    folder, trace = copy_of("ddim"), tmp_path / "ran"
    (folder / "unet" / "mine.py").write_text(
        f"import pathlib; pathlib.Path({str(trace)!r}).touch()\nfrom diffusers import UNet2DModel as Mine\n"
    )
    edit_index(folder, unet=["mine", "Mine"])
    with pytest.raises(ModelLoadError, match=r"unet \(mine\).*--trust-remote-code"):
        load_quietly(str(folder))
    assert not trace.exists()
    load_quietly(str(folder), trust_remote_code=True)
    assert trace.exists()


@pytest.mark.parametrize("change", [{"_class_name": ["mine", "MinePipeline"]}, {"unet": ["antigravity", "UNet"]}])
def test_a_pipeline_or_component_from_elsewhere_is_refused(change: dict[str, Any], copy_of: Tiny) -> None:
    folder = copy_of("ddim")
    edit_index(folder, **change)
    with pytest.raises(ModelLoadError, match=r"not part of diffusers.*--trust-remote-code"):
        load_quietly(str(folder))


def test_a_folder_that_is_no_pipeline_says_so_and_hints_at_its_file(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"has no model_index\.json"):
        load_quietly(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelLoadError, match=r"if model\.safetensors is a whole model"):
        load_quietly(str(tmp_path))


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"_class_name": 3}'])
def test_an_index_that_cannot_be_used_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text(text)
    with pytest.raises(ModelLoadError, match=r"model_index\.json"):
        load_quietly(str(tmp_path))


def test_a_damaged_weight_file_is_a_load_error(copy_of: Tiny) -> None:
    folder = copy_of("ddim")
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(ModelLoadError, match="cannot be loaded"):
        load_quietly(str(folder))


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
def test_a_name_that_is_nothing_is_an_error(name: str, words: str) -> None:
    with pytest.raises(ModelLoadError, match=words) as caught:
        load_quietly(name)
    assert "\x1b" not in str(caught.value)


@pytest.mark.usefixtures("offline")
def test_a_hub_model_that_is_not_here_says_what_to_do() -> None:
    with pytest.raises(ModelLoadError, match=r"'nobody/nothing'.*not in the local cache and HF_HUB_OFFLINE is set"):
        load_quietly("nobody/nothing")


def test_dtype_device_and_pipeline_that_do_not_exist(tiny_model: Tiny) -> None:
    folder = str(tiny_model("ddim"))
    with pytest.raises(ModelLoadError, match="--dtype 'int8' is not a floating dtype"):
        load_quietly(folder, dtype="int8")
    with pytest.raises(UsageError, match="--device warp"):
        load_quietly(folder, device="warp")
    with pytest.raises(ModelLoadError, match="--pipeline 'NoPipeline'"):
        load_quietly(folder, pipeline="NoPipeline")
    with pytest.raises(ModelLoadError, match="--pipeline 'UNet2DModel'"):
        load_quietly(folder, pipeline="UNet2DModel")


def test_a_single_file_of_unknown_kind_asks_for_the_class(tmp_path: Path) -> None:
    save_file({"some.weight": torch.zeros(2)}, tmp_path / "m.safetensors")
    with pytest.raises(ModelLoadError, match="tell no known model; give --pipeline CLASS and --config FOLDER"):
        load_quietly(str(tmp_path / "m.safetensors"))
    (tmp_path / "bad.safetensors").write_bytes(b"junk")
    with pytest.raises(ModelLoadError, match="cannot be read as safetensors"):
        load_quietly(str(tmp_path / "bad.safetensors"))


@pytest.mark.usefixtures("offline")
def test_a_single_file_of_known_kind_asks_for_its_configuration(tmp_path: Path) -> None:
    key = "conditioner.embedders.1.model.transformer.resblocks.9.mlp.c_proj.bias"
    save_file({key: torch.zeros(2)}, tmp_path / "xl.safetensors")
    with pytest.raises(ModelLoadError, match=r"'stabilityai/stable-diffusion-xl-base-1\.0'.*--config FOLDER"):
        load_quietly(str(tmp_path / "xl.safetensors"))


def test_a_single_file_takes_its_class_from_the_configuration(tmp_path: Path, tiny_model: Tiny) -> None:
    save_file({"some.weight": torch.zeros(2)}, tmp_path / "m.safetensors")
    with pytest.raises(ModelLoadError, match="DDIMPipeline cannot be loaded from a single file"):
        load_quietly(str(tmp_path / "m.safetensors"), config=str(tiny_model("ddim")))


@pytest.mark.usefixtures("offline")
def test_a_single_file_is_the_same_model_as_its_folder(tmp_path: Path, tiny_model: Tiny) -> None:
    folder = tiny_model("stable_diffusion")
    same = plain(folder)
    same.safety_checker = None  # a single file holds none
    single_file.write(same, tmp_path / "sd.safetensors")
    runner, fields = load_runner(str(tmp_path / "sd.safetensors"), config=str(folder)), {"height": 32, "width": 64}
    media = run(runner, planned(prompt="x", num_inference_steps=2, **fields))[0]
    np.testing.assert_array_equal(levels(media), reference(same, 5, prompt="x", num_inference_steps=2, **fields))
