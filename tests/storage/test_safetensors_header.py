"""Headers of safetensors files."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from omni_cli.storage.safetensors_header import TensorInfo, read_header


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tensors = {
        "a": torch.zeros(2, 3, dtype=torch.bfloat16),
        "b": torch.zeros((), dtype=torch.int64),
        "c": torch.zeros(4, dtype=torch.float8_e4m3fn),
    }
    save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "pt"})
    return tmp_path / "x.safetensors"


def test_every_tensor_has_its_dtype_and_shape(path: Path) -> None:
    assert read_header(path) == {
        "a": TensorInfo("BF16", (2, 3)),
        "b": TensorInfo("I64", ()),
        "c": TensorInfo("F8_E4M3", (4,)),
    }


def test_header_is_read_without_torch(path: Path) -> None:
    code = (
        "import pathlib, sys\n"
        "from omni_cli.storage.safetensors_header import read_header\n"
        "assert len(read_header(pathlib.Path(sys.argv[1]))) == 3\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def test_broken_file_is_an_error(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SafetensorError):
        read_header(path)
    with pytest.raises(FileNotFoundError):
        read_header(path.with_name("none.safetensors"))
