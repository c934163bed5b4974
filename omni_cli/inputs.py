"""Input files of a request: list them with their kinds, or replace their paths.

A field of a request holds a path. Inside `extra`, a file is an object of its kind and its path, alone or in a list:
 `{"control_image": {"image": "pose.png"}}`, `{"reference_images": [{"image": "a.png"}, {"image": "b.png"}]}`.
Any other object is data for the pipeline.
"""

import os
from collections.abc import Callable
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from omni_cli.request import GenerationRequest
from omni_cli.storage.user_path import expand_user


class InputKind(StrEnum):
    """How a file is read.

    IMAGE: an RGB picture. MASK: a grey-level picture, or a clip of them. VIDEO: a list of pictures. TENSOR: one array
    (`.npy`, or a `.safetensors` file with one tensor). TENSORS: a `.safetensors` file whose tensors are named like
    keywords of the pipeline. LORA: an adapter.
    """

    IMAGE = "image"
    MASK = "mask"
    VIDEO = "video"
    TENSOR = "tensor"
    TENSORS = "tensors"
    LORA = "lora"


class InputFile(NamedTuple):
    """An input file of a request. `keyword` is the key in `extra`, "" for a file that a field names."""

    field: str
    path: str
    kind: InputKind
    keyword: str = ""

    @property
    def name(self) -> str:
        """The place of the file in the request: `image`, `extra.control_image`."""
        return f"{self.field}.{self.keyword}" if self.keyword else self.field


FIELD_KINDS = {
    "image": InputKind.IMAGE,
    "last_image": InputKind.IMAGE,
    "mask": InputKind.MASK,
    "video": InputKind.VIDEO,
    "prompt_embeds": InputKind.TENSORS,
    "latents": InputKind.TENSOR,
}
"""Fields that hold paths, and the kinds of their files. `lora` and `extra` are handled apart."""

EXTRA_KINDS = frozenset({InputKind.IMAGE, InputKind.MASK, InputKind.VIDEO, InputKind.TENSOR})
"""Kinds allowed in an object of `extra`."""

_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")

_path_fields = attrgetter(*FIELD_KINDS, "lora", "extra")

_ALL_NONE = (None,) * (len(FIELD_KINDS) + 2)


def input_files(request: GenerationRequest) -> list[InputFile]:
    """Return every input file of `request`, adapters included, in the order of the fields."""
    files: list[InputFile] = []

    def collect(file: InputFile) -> str:
        files.append(file)
        return file.path

    with_paths(request, collect)
    return files


def base_name(path: str) -> str:
    """Return the last part of an absolute `path`, of a folder too; a hub id or another relative name stays whole."""
    return Path(os.path.normpath(path)).name if Path(path).is_absolute() else path


def reads_files(request: GenerationRequest) -> bool:
    """Return whether the pipeline call of `request` reads input files; adapters do not count."""
    return any(file.kind is not InputKind.LORA for file in input_files(request))


def reads_clip(request: GenerationRequest) -> bool:
    """Return whether `request` has an input clip, whose length a pipeline may keep or extend."""
    return any(file.kind is InputKind.VIDEO for file in input_files(request))


def with_paths(request: GenerationRequest, change: Callable[[InputFile], str]) -> GenerationRequest:
    """Return `request` with the path of every input file replaced by `change(file)`."""
    if _path_fields(request) == _ALL_NONE:
        return request
    changed: dict[str, Any] = {}
    for field, kind in FIELD_KINDS.items():
        value = getattr(request, field)
        if isinstance(value, list):
            changed[field] = [change(InputFile(field, path, kind)) for path in value]
        elif value is not None:
            changed[field] = change(InputFile(field, value, kind))
    if request.lora is not None:
        changed["lora"] = [
            msgspec.structs.replace(adapter, path=change(InputFile("lora", adapter.path, InputKind.LORA)))
            for adapter in request.lora
        ]
    if request.extra is not None:
        files = {
            key: replaced_files(value, key, lambda file: {str(file.kind): change(file)})
            for key, value in request.extra.items()
        }
        changed["extra"] = files
    return msgspec.structs.replace(request, **changed)


def replaced_files(value: Any, keyword: str, replace: Callable[[InputFile], Any]) -> Any:
    """Return `value`, that of `keyword` in `extra`, with every object that names a file replaced by `replace(file)`."""
    if isinstance(value, list):
        return [replaced_files(item, keyword, replace) for item in value]
    if isinstance(value, dict) and len(value) == 1:
        (kind, path), *_ = value.items()
        if kind in EXTRA_KINDS and isinstance(path, str):
            return replace(InputFile("extra", path, InputKind(kind), keyword))
    return value


def with_absolute_paths(request: GenerationRequest, base: Path) -> GenerationRequest:
    """Return `request` with input paths made absolute from `base`. URLs stay, so that a check can report them."""
    return with_paths(
        request, lambda file: (_adapter_path if file.kind is InputKind.LORA else _absolute)(file.path, base)
    )


def _absolute(path: str, base: Path) -> str:
    """Return `path` made absolute from `base`, `~` being the home folder; a URL as it is."""
    return path if "://" in path or path.startswith("data:") else str((base / expand_user(path)).absolute())


def _adapter_path(path: str, base: Path) -> str:
    """Return the absolute path of an adapter; `path` itself if no such file exists and it looks like a hub id."""
    absolute = _absolute(path, base)
    looks_like_file = path.startswith(("/", "./", "../", "~")) or path.lower().endswith(_WEIGHT_SUFFIXES)
    return absolute if looks_like_file or os.path.lexists(absolute) else path
