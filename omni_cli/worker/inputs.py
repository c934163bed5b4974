"""Input files of a request, read into what diffusers takes: pictures upright and in 8 bits, clips as lists of them, tensors.

Pictures become what `diffusers.utils.load_image` makes of them (EXIF orientation applied, alpha and palette dropped to RGB,
CMYK converted), but for 16-bit grey, which is scaled to 8 bits where that would clip it to white.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError
from safetensors import SafetensorError
from safetensors.torch import load_file

from omni_cli.errors import InputUnreadable
from omni_cli.inputs import InputFile, InputKind, frame_files, is_animation, is_clip

MAX_PIXELS = 2 * (Image.MAX_IMAGE_PIXELS or 89_478_485)
"""Largest picture: what Pillow calls a decompression bomb."""

MAX_CLIP_BYTES = 8 << 30
"""Largest decoded clip."""

_UPRIGHT = {90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_270}
"""Degrees counterclockwise that bring a frame upright -> how Pillow does it."""


def read_input(file: InputFile, frames: int | None = None) -> Any:
    """What is in `file`; of a clip at most the first `frames` pictures. InputUnreadable names the field and the file.

    image: PIL RGB; mask: PIL L, white where the pipeline is to paint, or a list of them; video: list of PIL RGB of one size;
    tensor: a CPU tensor; tensors: CPU tensors by name.
    """
    try:
        match file.kind:
            case InputKind.IMAGE:
                return _picture(_existing(file.path), "RGB")
            case InputKind.MASK if is_clip(file.path):
                return [frame.convert("L") for frame in _clip(file.path, frames)]
            case InputKind.MASK:
                return _picture(_existing(file.path), "L")
            case InputKind.VIDEO:
                return _clip(file.path, frames)
            case InputKind.TENSOR:
                return _tensor(_existing(file.path), file.keyword or file.field)
            case InputKind.TENSORS:
                return load_file(_existing(file.path))
            case InputKind.LORA:
                raise ValueError("adapters are loaded by the pipeline")
    except UnidentifiedImageError as error:
        raise _unreadable(file, "this is no image file that can be read") from error
    except (OSError, ValueError, SyntaxError, EOFError, SafetensorError, av.FFmpegError) as error:
        raise _unreadable(file, f"cannot be read: {error}") from error
    except Image.DecompressionBombError as error:
        raise _unreadable(file, f"cannot be read: more than {MAX_PIXELS} pixels") from error


def _unreadable(file: InputFile, reason: str) -> InputUnreadable:
    return InputUnreadable(f"{file.name} {file.path!r}: {reason}")


def _existing(path: str) -> Path:
    """`path` as a file that is there."""
    source = Path(path).expanduser()
    if not source.is_file():
        raise FileNotFoundError("no such file")
    return source


def _picture(source: Path, mode: str) -> Image.Image:
    with Image.open(source) as file:
        upright: Image.Image = ImageOps.exif_transpose(file)
        # Pillow wants a palette with degrees of transparency converted in two steps; the colours are the same.
        plain = upright.convert("RGBA") if upright.mode == "P" and "transparency" in upright.info else upright
        return _eight_bits(plain).convert(mode)


def _eight_bits(picture: Image.Image) -> Image.Image:
    """Grey of 16 bits scaled to 8; converting it as it is would clip."""
    if picture.mode == "I" or picture.mode.startswith("I;16"):
        levels = np.asarray(picture).astype(np.int64).clip(0, 65535)
        return Image.fromarray((levels >> 8).astype(np.uint8))
    if picture.mode == "F":
        raise ValueError("a picture of floats has no known range; save it with 8 or 16 bits")
    return picture


def _clip(path: str, limit: int | None) -> list[Image.Image]:
    """The pictures of a video file, an animated picture or a folder of frames, in order."""
    source = Path(path).expanduser()
    found: Iterator[Image.Image]
    if source.is_dir():
        found = (_picture(frame, "RGB") for frame in frame_files(str(source)))
    elif is_animation(path):
        found = _animation(_existing(path))
    else:
        found = _video(_existing(path))
    frames: list[Image.Image] = []
    total = 0
    for frame in found:
        if frames and frame.size != frames[0].size:
            raise ValueError(f"frame {len(frames)} is {_by(frame)} and the first is {_by(frames[0])}")
        total += frame.width * frame.height * 3
        if total > MAX_CLIP_BYTES:
            raise ValueError(f"more than {MAX_CLIP_BYTES >> 30} GiB of frames; cut the clip, or say num_frames")
        frames.append(frame)
        if len(frames) == limit:
            break
    if not frames:
        raise ValueError("the video has no frames")
    return frames


def _by(picture: Image.Image) -> str:
    return f"{picture.width}x{picture.height}"


def _animation(source: Path) -> Iterator[Image.Image]:
    with Image.open(source) as file:
        for frame in ImageSequence.Iterator(file):
            yield frame.convert("RGB")


def _video(source: Path) -> Iterator[Image.Image]:
    with av.open(str(source)) as container:
        stream = next(iter(container.streams.video), None)
        if stream is None:
            raise ValueError("the file has no video stream")
        stream.thread_type = "AUTO"
        for frame in container.decode(stream):
            picture: Image.Image = frame.to_image()  # type: ignore[no-untyped-call]
            turn = _UPRIGHT.get(round(frame.rotation) % 360)
            yield picture if turn is None else picture.transpose(turn)


def _tensor(source: Path, name: str) -> torch.Tensor:
    """The one array of `source`, or the one called `name`."""
    if source.suffix == ".npy":
        return torch.from_numpy(np.load(source, allow_pickle=False))
    found = load_file(source)
    if name not in found and len(found) != 1:
        raise ValueError(f"it holds {len(found)} tensors and none is named {name}")
    return found[name] if name in found else next(iter(found.values()))
