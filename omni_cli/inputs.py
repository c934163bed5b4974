"""The input files of a request: which there are, what each holds, and the same request with other paths.

A field of a request holds a path. Among the keywords of `extra`, a file is written as an object of its kind and its path,
alone or in a list: `{"control_image": {"image": "pose.png"}}`, `{"reference_images": [{"image": "a.png"}, {"image": "b.png"}]}`.
Any other object is plain data for the pipeline.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from omni_cli.request import GenerationRequest


class InputKind(StrEnum):
    """What a file is read as.

    An image is a picture in RGB, a mask one in grey levels or a clip of them, a video a list of pictures. A tensor is one array (`.npy`, or a
    `.safetensors` file of one tensor), tensors are several with the pipeline's own keywords as names (`.safetensors`).
    """

    IMAGE = "image"
    MASK = "mask"
    VIDEO = "video"
    TENSOR = "tensor"
    TENSORS = "tensors"
    LORA = "lora"


class InputFile(NamedTuple):
    """A file that a request reads: the field that names it, its path, its kind, and of a file in `extra` the keyword."""

    field: str
    path: str
    kind: InputKind
    keyword: str = ""

    @property
    def name(self) -> str:
        """How people are told of it: `image`, `extra.control_image`."""
        return f"{self.field}.{self.keyword}" if self.keyword else self.field


FIELD_KINDS = {
    "image": InputKind.IMAGE,
    "last_image": InputKind.IMAGE,
    "mask": InputKind.MASK,
    "video": InputKind.VIDEO,
    "prompt_embeds": InputKind.TENSORS,
    "latents": InputKind.TENSOR,
}
"""Fields that hold paths, and what is there. A `lora` may also be the id of one on a hub, and `extra` may hold objects."""

EXTRA_KINDS = frozenset({InputKind.IMAGE, InputKind.MASK, InputKind.VIDEO, InputKind.TENSOR})
"""Kinds that an object in `extra` may name."""

_given = attrgetter(*FIELD_KINDS, "lora", "extra")

_NOTHING = (None,) * (len(FIELD_KINDS) + 2)


def input_files(request: GenerationRequest) -> list[InputFile]:
    """Every input file of `request`, adapters included, in the order of the fields."""
    found: list[InputFile] = []

    def note(file: InputFile) -> str:
        found.append(file)
        return file.path

    with_paths(request, note)
    return found


def reads_files(request: GenerationRequest) -> bool:
    """True if a pipeline call for `request` needs input files; adapters are no part of the call."""
    return any(file.kind is not InputKind.LORA for file in input_files(request))


def with_paths(request: GenerationRequest, change: Callable[[InputFile], str]) -> GenerationRequest:
    """`request` with the path of every input file replaced by what `change` makes of it."""
    if _given(request) == _NOTHING:
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
    """The value of a keyword of `extra` with every object that names a file replaced."""
    if isinstance(value, list):
        return [replaced_files(item, keyword, replace) for item in value]
    if isinstance(value, dict) and len(value) == 1:
        (kind, path), *_ = value.items()
        if kind in EXTRA_KINDS and isinstance(path, str):
            return replace(InputFile("extra", path, InputKind(kind), keyword))
    return value


ANIMATIONS = frozenset({".gif", ".webp", ".png", ".apng"})
"""Files that Pillow reads as a clip; all other clips are PyAV's."""

_FRAMES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff"})


_CLIPS = frozenset({".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".gif"})


def is_clip(path: str) -> bool:
    """True if a mask in `path` is one per frame: a video file, or a folder of frames."""
    return Path(path).suffix.lower() in _CLIPS or Path(path).is_dir()


def is_animation(path: str) -> bool:
    """True if the clip in `path` is a picture that moves, or one that does not."""
    return Path(path).suffix.lower() in ANIMATIONS


def frame_files(folder: str) -> list[Path]:
    """The pictures in `folder`, in the order of their names with numbers counted: 2.png, 10.png. Raises OSError."""
    pictures = [path for path in Path(folder).iterdir() if path.suffix.lower() in _FRAMES and path.is_file()]
    return sorted(pictures, key=lambda path: [_counted(part) for part in re.split(r"([0-9]+)", path.name)])


def _counted(part: str) -> tuple[int, str]:
    return (int(part), part) if part.isascii() and part.isdigit() else (0, part)
