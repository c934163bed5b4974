"""Names, dtypes and shapes of the tensors in a `.safetensors` file, read without torch and without the data."""

from pathlib import Path
from typing import NamedTuple

from safetensors import safe_open


class TensorInfo(NamedTuple):
    """One tensor of a file. `dtype` is the format's own name: "F32", "BF16", "I64", ..."""

    dtype: str
    shape: tuple[int, ...]


def read_header(path: Path) -> dict[str, TensorInfo]:
    """Return the tensors of `path` by name.

    Raises safetensors.SafetensorError if it is not a whole safetensors file, OSError if it cannot be read.
    """
    with safe_open(path, framework="np") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        return {name: TensorInfo(part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}
