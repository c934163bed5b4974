"""How much memory a model's weights will take, told by the headers of its .safetensors files; no weight is read.

Format: github.com/huggingface/safetensors#format - eight bytes with the length of a JSON header, which names every tensor with
its dtype and shape.
"""

import json
import math
import struct
from pathlib import Path
from typing import Any

from omni_cli.errors import ModelLoadError
from omni_cli.models.registry import ModelChoice, index_folder
from omni_cli.models.source import components, locate, read_index

MAX_HEADER = 100_000_000
"""Bytes; safetensors itself reads no longer header."""

ITEM_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}
"""Size of an element of the dtypes that a model can be loaded as."""

_STORED = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"}
"""Floating dtypes of a file: loading casts these."""

_WHOLE = {"I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1}


def weight_bytes(model: ModelChoice, variant: str | None, dtype: str) -> int | None:
    """Bytes of all weights of `model` loaded as `dtype`; None where its files are not here or cannot be read.

    Every floating tensor counts as `dtype`; the few that a class keeps in float32 on purpose make it a little more.
    """
    item = ITEM_BYTES.get(dtype)
    try:
        files = _files(model, variant)
        return sum(_file_bytes(file, item) for file in files) if files and item is not None else None
    except (ModelLoadError, OSError, ValueError, KeyError, TypeError, AttributeError, struct.error):
        return None  # the loader says what is wrong with it


def _files(model: ModelChoice, variant: str | None) -> list[Path]:
    """The weight files that loading reads: the file itself, or those of the variant in the folder of each component."""
    path = locate(model).path
    if path is not None and path.is_file():
        return [path]
    folder = path or index_folder(model)
    if folder is None:
        return []
    found = []
    for component, _, _ in components(read_index(folder, model.model)):
        files = sorted((folder / component).glob("*.safetensors"))
        plain = [file for file in files if "." not in file.stem]
        special = [file for file in files if variant and f".{variant}" in file.stem]
        found += special or plain
    return found


def _file_bytes(path: Path, item: int) -> int:
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > MAX_HEADER:
            raise ValueError(f"a header of {length} bytes")
        header: dict[str, Any] = json.loads(file.read(length))
    tensors = [value for name, value in header.items() if name != "__metadata__"]
    return sum(math.prod(tensor["shape"]) * _item_bytes(tensor["dtype"], item) for tensor in tensors)


def _item_bytes(stored: str, item: int) -> int:
    return item if stored in _STORED else _WHOLE[stored]
