"""Single files: the pipeline class, the configuration, and the same pixels as from a folder."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from omni_cli.errors import ModelLoadError
from tests.factories import planned
from tests.tiny import single_file
from tests.worker.conftest import levels, plain, reference, run
from tests.worker.conftest import load as load_runner
from tests.worker.loader.conftest import Tiny, load_quietly


def test_a_single_file_of_unknown_architecture_is_an_error_that_asks_for_the_class(tmp_path: Path) -> None:
    save_file({"some.weight": torch.zeros(2)}, tmp_path / "m.safetensors")
    with pytest.raises(ModelLoadError, match="match no known model; give --pipeline CLASS and --config FOLDER"):
        load_quietly(str(tmp_path / "m.safetensors"))
    (tmp_path / "bad.safetensors").write_bytes(b"junk")
    with pytest.raises(ModelLoadError, match="is not a safetensors file"):
        load_quietly(str(tmp_path / "bad.safetensors"))


@pytest.mark.usefixtures("offline")
def test_an_uncached_configuration_of_a_single_file_is_an_error_that_asks_for_a_folder(tmp_path: Path) -> None:
    key = "conditioner.embedders.1.model.transformer.resblocks.9.mlp.c_proj.bias"
    save_file({key: torch.zeros(2)}, tmp_path / "xl.safetensors")
    with pytest.raises(ModelLoadError, match=r"'stabilityai/stable-diffusion-xl-base-1\.0'.*--config FOLDER"):
        load_quietly(str(tmp_path / "xl.safetensors"))


def test_the_class_of_a_single_file_comes_from_its_configuration(tmp_path: Path, tiny_model: Tiny) -> None:
    save_file({"some.weight": torch.zeros(2)}, tmp_path / "m.safetensors")
    with pytest.raises(ModelLoadError, match="DDIMPipeline cannot be loaded from a single file"):
        load_quietly(str(tmp_path / "m.safetensors"), config=str(tiny_model("ddim")))


@pytest.mark.usefixtures("offline")
def test_a_single_file_gives_the_same_pixels_as_its_folder(tmp_path: Path, tiny_model: Tiny) -> None:
    folder = tiny_model("stable_diffusion")
    same = plain(folder)
    same.safety_checker = None  # a single file holds none
    single_file.write(same, tmp_path / "sd.safetensors")
    runner, fields = load_runner(str(tmp_path / "sd.safetensors"), config=str(folder)), {"height": 32, "width": 64}
    media = run(runner, planned(prompt="x", num_inference_steps=2, **fields))[0]
    np.testing.assert_array_equal(levels(media), reference(same, 5, prompt="x", num_inference_steps=2, **fields))
