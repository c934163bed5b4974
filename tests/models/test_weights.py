"""The bytes of a model's weights, from the headers of its files."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from omni_cli.config import ModelConfig
from omni_cli.models import weights
from omni_cli.models.demo import WEIGHTS
from omni_cli.models.weights import read_ahead_weights, weight_bytes


def save(path: Path, **tensors: torch.Tensor) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    index: dict[str, Any] = {"_class_name": "FluxPipeline", "_diffusers_version": "0.36.0"}
    index |= {
        "vae": ["diffusers", "AutoencoderKL"],
        "transformer": ["diffusers", "X"],
        "tokenizer": ["transformers", "T"],
    }
    (tmp_path / "model_index.json").write_text(json.dumps(index | {"image_encoder": [None, None]}))
    save(
        tmp_path / "vae" / "diffusion_pytorch_model.safetensors",
        a=torch.zeros(10, 3),
        n=torch.zeros(4, dtype=torch.int64),
    )
    save(tmp_path / "vae" / "diffusion_pytorch_model.fp16.safetensors", a=torch.zeros(10, 3, dtype=torch.float16))
    save(tmp_path / "transformer" / "diffusion_pytorch_model-00001-of-00002.safetensors", a=torch.zeros(7))
    save(tmp_path / "transformer" / "diffusion_pytorch_model-00002-of-00002.safetensors", b=torch.zeros(()))
    save(tmp_path / "unused" / "model.safetensors", a=torch.zeros(1000))
    return tmp_path


def bytes_of(path: Path, variant: str | None = None, dtype: str = "float32") -> int | None:
    return weight_bytes(ModelConfig(model=str(path)), variant, dtype)


def test_weights_of_all_components_count_in_the_loading_dtype(folder: Path) -> None:
    assert bytes_of(folder) == (30 + 7 + 1) * 4 + 4 * 8
    assert bytes_of(folder, dtype="bfloat16") == (30 + 7 + 1) * 2 + 4 * 8


def test_variant_files_replace_the_others_of_their_component(folder: Path) -> None:
    assert bytes_of(folder, "fp16") == (30 + 7 + 1) * 4


def test_single_file_counts_whole(folder: Path) -> None:
    assert bytes_of(folder / "unused" / "model.safetensors") == 4000


def test_weights_of_the_demo_are_counted() -> None:
    counted = weight_bytes(ModelConfig(), None, "float32")
    stored = sum(file.stat().st_size for file in WEIGHTS.rglob("*.safetensors"))
    assert counted is not None
    assert stored / 2 < counted < stored * 2.1


@pytest.mark.parametrize(
    "damage",
    [b"", b"\xff" * 8, struct.pack("<Q", 5) + b"[1,2]", struct.pack("<Q", 19) + b'{"a":{"dtype":"Q"}}', b"x" * 99],
)
def test_damaged_file_has_unknown_size(folder: Path, damage: bytes) -> None:
    (folder / "vae" / "diffusion_pytorch_model.safetensors").write_bytes(damage)
    assert bytes_of(folder) is None


def test_missing_model_or_unknown_dtype_has_unknown_size(folder: Path) -> None:
    assert bytes_of(folder / "nowhere") is None
    assert weight_bytes(ModelConfig(model="owner/never-downloaded"), None, "float32") is None
    assert bytes_of(folder, dtype="float4") is None


@pytest.mark.parametrize(("room", "read"), [(None, True), (1 << 20, True), (100, False)])
def test_weights_are_read_ahead_where_there_is_room(
    folder: Path, monkeypatch: pytest.MonkeyPatch, room: int | None, read: bool
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        weights, "read_ahead", lambda files: asked.extend(str(file.relative_to(folder)) for file in files)
    )
    read_ahead_weights(ModelConfig(model=str(folder)), "fp16", room)
    assert asked == read * [
        "vae/diffusion_pytorch_model.fp16.safetensors",
        "transformer/diffusion_pytorch_model-00001-of-00002.safetensors",
        "transformer/diffusion_pytorch_model-00002-of-00002.safetensors",
    ]


def test_weights_that_are_not_there_are_left_to_the_loader(folder: Path) -> None:
    (folder / "model_index.json").unlink()
    read_ahead_weights(ModelConfig(model=str(folder)), None)
    read_ahead_weights(ModelConfig(model=str(folder / "nowhere")), None)
