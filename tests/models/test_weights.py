"""The size of a model's weights, told by headers alone."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from omni_cli.config import ModelConfig
from omni_cli.models.demo import WEIGHTS
from omni_cli.models.weights import weight_bytes


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


def of(path: Path, variant: str | None = None, dtype: str = "float32") -> int | None:
    return weight_bytes(ModelConfig(model=str(path)), variant, dtype)


def test_every_component_of_the_index_counts_in_the_dtype_of_the_run(folder: Path) -> None:
    assert of(folder) == (30 + 7 + 1) * 4 + 4 * 8
    assert of(folder, dtype="bfloat16") == (30 + 7 + 1) * 2 + 4 * 8


def test_a_variant_counts_where_a_component_has_it(folder: Path) -> None:
    assert of(folder, "fp16") == (30 + 7 + 1) * 4


def test_a_single_file_counts_whole(folder: Path) -> None:
    assert of(folder / "unused" / "model.safetensors") == 4000


def test_the_demo_counts_what_its_files_hold() -> None:
    found = weight_bytes(ModelConfig(), None, "float32")
    stored = sum(file.stat().st_size for file in WEIGHTS.rglob("*.safetensors"))
    assert found is not None
    assert stored / 2 < found < stored * 2.1


@pytest.mark.parametrize(
    "damage",
    [b"", b"\xff" * 8, struct.pack("<Q", 5) + b"[1,2]", struct.pack("<Q", 19) + b'{"a":{"dtype":"Q"}}', b"x" * 99],
)
def test_what_cannot_be_read_is_not_known(folder: Path, damage: bytes) -> None:
    (folder / "vae" / "diffusion_pytorch_model.safetensors").write_bytes(damage)
    assert of(folder) is None


def test_a_model_that_is_not_here_or_a_dtype_without_a_size_is_not_known(folder: Path) -> None:
    assert of(folder / "nowhere") is None
    assert weight_bytes(ModelConfig(model="owner/never-downloaded"), None, "float32") is None
    assert of(folder, dtype="float4") is None
