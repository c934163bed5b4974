"""Where a model's files are, and which of them are refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from omni_cli.config import ModelConfig
from omni_cli.errors import ModelLoadError
from omni_cli.models.demo import WEIGHTS
from omni_cli.models.model_files import (
    ModelFiles,
    ModelForm,
    check_weights,
    locate,
    pipeline_components,
    read_index,
    remote_code_class,
    without_flag,
)

INDEX = {"_class_name": "P", "vae": ["diffusers", "AutoencoderKL"], "safety_checker": [None, None], "flag": True}


def test_models_are_located_by_their_form(tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").touch()
    assert locate(ModelConfig(model="demo")) == ModelFiles(ModelForm.FOLDER, "demo", WEIGHTS)
    assert locate(ModelConfig(model=str(tmp_path))) == ModelFiles(ModelForm.FOLDER, str(tmp_path), tmp_path)
    file = tmp_path / "m.safetensors"
    assert locate(ModelConfig(model=str(file))) == ModelFiles(ModelForm.FILE, str(file), file)
    assert locate(ModelConfig(model="owner/name")) == ModelFiles(ModelForm.HUB, "owner/name")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("weights.ckpt", "are pickles"),
        ("notes.txt", "is a file, but not a .safetensors file"),
        ("gone.safetensors", "no such folder or file"),
        ("a/b/c", "no such folder or file"),
        ("./gone", "no such folder or file"),
        ("n" * 97, "no such folder or file"),
    ],
)
def test_name_that_is_no_model_raises(name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").touch()
    with pytest.raises(ModelLoadError, match=words) as raised:
        locate(ModelConfig(model=name))
    assert not without_flag(raised.value, name).startswith(("--model", ":"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "has no model_index.json, so it is not a diffusers pipeline$"),
        ("{", "cannot be read"),
        ("[]", "names no pipeline class"),
        ('{"vae": []}', "names no pipeline class"),
    ],
)
def test_folder_without_a_readable_index_raises(text: str | None, words: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "model_index.json").write_text(text)
    with pytest.raises(ModelLoadError, match=words):
        read_index(tmp_path, "m")


def test_folder_with_a_single_weight_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "whole.safetensors").touch()
    with pytest.raises(ModelLoadError, match=r"if whole\.safetensors is a whole model, give the file itself"):
        read_index(tmp_path, "m")


def test_components_are_the_entries_with_a_library_and_a_class() -> None:
    assert pipeline_components(INDEX) == [("vae", "diffusers", "AutoencoderKL")]


def test_component_with_pickles_alone_raises(tmp_path: Path) -> None:
    (tmp_path / "vae").mkdir()
    (tmp_path / "vae" / "w.bin").touch()
    with pytest.raises(ModelLoadError, match=r"vae has only w\.bin, a pickle"):
        check_weights(tmp_path, INDEX, "m")
    save_file({"a": np.zeros(4)}, tmp_path / "vae" / "w.safetensors")
    check_weights(tmp_path, INDEX, "m")


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"auto_map": {"AutoModelForCausalLM": "modeling.Mine"}}, "modeling.Mine"),
        ({"auto_map": {"AutoModel": "modeling.Mine"}}, None),
        ({"auto_map": ["modeling.Mine"]}, None),
        ([], None),
    ],
)
def test_remote_code_class_is_that_of_the_auto_map(config: object, name: str | None, tmp_path: Path) -> None:
    assert remote_code_class(tmp_path) is None
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert remote_code_class(tmp_path) == name
    (tmp_path / "model_index.json").touch()
    assert remote_code_class(tmp_path) is None, "a folder with a pipeline index is a pipeline"


def test_component_that_its_class_makes_by_itself_needs_no_folder(tmp_path: Path) -> None:
    (tmp_path / "vae").mkdir()
    (tmp_path / "vae" / "config.json").write_text("{}")
    save_file({"a": np.zeros(1, np.float32)}, tmp_path / "vae" / "diffusion_pytorch_model.safetensors")
    index: dict[str, object] = {"_class_name": "LongCatAudioDiTPipeline", "vae": ["diffusers", "V"]}
    check_weights(tmp_path, index | {"scheduler": ["diffusers", "S"]}, "m")
    for pipeline, part in (("LongCatAudioDiTPipeline", "transformer"), ("FluxPipeline", "scheduler"), ("Mine", "x")):
        with pytest.raises(ModelLoadError, match=rf"{part} \(S\) has no folder"):
            check_weights(tmp_path, index | {"_class_name": pipeline, part: ["diffusers", "S"]}, "m")
