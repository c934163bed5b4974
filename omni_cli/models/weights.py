"""Estimate the memory of a model's weights from the headers of its .safetensors files; no weight is read."""

import math
from pathlib import Path

from safetensors import SafetensorError

from omni_cli.errors import ModelLoadError
from omni_cli.host_memory import free_bytes
from omni_cli.models.model_files import locate, pipeline_components, read_index
from omni_cli.models.registry import ModelChoice, index_folder
from omni_cli.storage.read_ahead import read_ahead
from omni_cli.storage.safetensors_header import read_header

ITEM_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}
"""Bytes of an element, by the dtype that a model is loaded as."""

DTYPE_ALIASES = {"fp32": "float32", "float": "float32", "fp16": "float16", "half": "float16", "bf16": "bfloat16"}
"""Other names of dtypes, as `--dtype` takes them."""

_CAST_DTYPES = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"}
"""Floating-point dtypes of a file, which loading casts."""

_KEPT_DTYPES = {"I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1}


def weight_bytes(model: ModelChoice, variant: str | None, dtype: str) -> int | None:
    """Return the bytes of all weights of `model` loaded as `dtype`; None if its files are not local or cannot be read.

    Counts every floating-point tensor as `dtype`, which is a little low for classes that keep some in float32.
    """
    item_bytes = ITEM_BYTES.get(dtype)
    try:
        files = _weight_files(model, variant)
        return sum(_file_bytes(file, item_bytes) for file in files) if files and item_bytes is not None else None
    except (ModelLoadError, OSError, ValueError, KeyError, SafetensorError):
        return None  # the loader reports what is wrong


def read_ahead_weights(model: ModelChoice, variant: str | None, room: int | None = None) -> None:
    """Ask the kernel to read the weights of `model` into its page cache, and return when all of it is asked for.

    Does nothing if they are not local, or take more than half of `room`, the bytes of memory that are free (None: ask).
    """
    room = free_bytes() if room is None else room
    try:
        files = _weight_files(model, variant)
        size = sum(file.stat().st_size for file in files)
    except (ModelLoadError, OSError):
        return  # the loader reports what is wrong
    if room is not None and size <= room // 2:
        read_ahead(files)


def _weight_files(model: ModelChoice, variant: str | None) -> list[Path]:
    """Return the weight files that loading reads: the file itself, or each component's files of the variant."""
    path = locate(model).path
    if path is not None and path.is_file():
        return [path]
    folder = path or index_folder(model)
    if folder is None:
        return []
    weights = []
    for component, _, _ in pipeline_components(read_index(folder, model.model)):
        files = sorted((folder / component).glob("*.safetensors"))
        plain = [file for file in files if "." not in file.stem]
        of_variant = [file for file in files if variant and f".{variant}" in file.stem]
        weights += of_variant or plain
    return weights


def _file_bytes(path: Path, item_bytes: int) -> int:
    return sum(
        math.prod(tensor.shape) * (item_bytes if tensor.dtype in _CAST_DTYPES else _KEPT_DTYPES[tensor.dtype])
        for tensor in read_header(path).values()
    )
