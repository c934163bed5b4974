"""Read the input files of a request into what diffusers accepts: PIL images, lists of them, and tensors.

Images equal those of `diffusers.utils.load_image` (EXIF orientation applied, alpha and palette dropped to RGB, CMYK
converted), except 16-bit grey, which is scaled to 8 bits instead of being clipped to white.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError
from safetensors import SafetensorError
from safetensors.torch import load_file

from omni_cli.errors import InputUnreadable
from omni_cli.inputs import InputFile, InputKind
from omni_cli.storage.file_types import frame_files, is_animation, is_clip
from omni_cli.storage.user_path import expand_user

MAX_PIXELS = 2 * (Image.MAX_IMAGE_PIXELS or 89_478_485)
"""The largest image in pixels: the size from which Pillow reports a decompression bomb."""

MAX_CLIP_BYTES = 8 << 30
"""The largest decoded clip in bytes."""

ReadInput = Callable[[InputFile, int | None], Any]
"""Reads a file; of a clip at most the given number of frames."""

_UPRIGHT = {90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_270}
"""Rotation of a frame in degrees counterclockwise -> the Pillow operation that turns it upright."""


def read_input(file: InputFile, frames: int | None = None) -> Any:
    """Return the content of `file`, of a clip at most the first `frames` frames.

    image: a PIL image in RGB. mask: a PIL image in L, white where the pipeline paints, or a list of them.
    video: a list of PIL images in RGB of one size. tensor: a CPU tensor. tensors: CPU tensors by name.

    Raises InputUnreadable with the field and the file, also for the ValueError of a decoder or of a LoRA.
    """
    try:
        match file.kind:
            case InputKind.IMAGE:
                return _read_image(_existing(file.path), "RGB")
            case InputKind.MASK if is_clip(file.path):
                return [frame.convert("L") for frame in _read_clip(file.path, frames)]
            case InputKind.MASK:
                return _read_image(_existing(file.path), "L")
            case InputKind.VIDEO:
                return _read_clip(file.path, frames)
            case InputKind.TENSOR:
                return _read_tensor(_existing(file.path), file.keyword or file.field)
            case InputKind.TENSORS:
                return load_file(_existing(file.path))
            case InputKind.LORA:
                raise ValueError("LoRA adapters are loaded by the pipeline")
    except UnidentifiedImageError as error:
        raise _unreadable(file, "this is no image file that can be read") from error
    except (OSError, ValueError, SyntaxError, EOFError, SafetensorError, av.FFmpegError) as error:
        raise _unreadable(file, f"cannot be read: {error}") from error
    except Image.DecompressionBombError as error:
        raise _unreadable(file, f"cannot be read: more than {MAX_PIXELS} pixels") from error


def _unreadable(file: InputFile, reason: str) -> InputUnreadable:
    return InputUnreadable(f"{file.name} {file.path!r}: {reason}")


def _existing(path: str) -> Path:
    file = expand_user(path)
    if not file.is_file():
        raise FileNotFoundError("no such file")
    return file


def _read_image(path: Path, mode: str) -> Image.Image:
    with Image.open(path) as file:
        image: Image.Image = ImageOps.exif_transpose(file)
        if image.mode == "P" and "transparency" in image.info:
            image = image.convert("RGBA")  # avoids Pillow's warning about palettes with transparency; same colours
        return _to_8_bits(image).convert(mode)


def _to_8_bits(image: Image.Image) -> Image.Image:
    """Scale 16-bit grey to 8 bits, which `convert` would clip."""
    if image.mode == "I" or image.mode.startswith("I;16"):
        levels = np.asarray(image).astype(np.int64).clip(0, 65535)
        return Image.fromarray((levels >> 8).astype(np.uint8))
    if image.mode == "F":
        raise ValueError("an image of floats has no known value range; save it with 8 or 16 bits")
    return image


def _read_clip(path: str, max_frames: int | None) -> list[Image.Image]:
    """Return the frames of a video file, an animated image or a folder of images, in order."""
    source = expand_user(path)
    decoded: Iterator[Image.Image]
    if source.is_dir():
        decoded = (_read_image(frame, "RGB") for frame in frame_files(str(source)))
    elif is_animation(path):
        decoded = _animation_frames(_existing(path))
    else:
        decoded = _video_frames(_existing(path))
    frames: list[Image.Image] = []
    nbytes = 0
    for frame in decoded:
        if frames and frame.size != frames[0].size:
            sizes = [f"{image.width}x{image.height}" for image in (frame, frames[0])]
            raise ValueError(f"frame {len(frames)} is {sizes[0]} and the first is {sizes[1]}")
        nbytes += frame.width * frame.height * 3
        if nbytes > MAX_CLIP_BYTES:
            raise ValueError(f"more than {MAX_CLIP_BYTES >> 30} GiB of frames; cut the clip, or give num_frames")
        frames.append(frame)
        if len(frames) == max_frames:
            break
    if not frames:
        raise ValueError("the video has no frames")
    return frames


def _animation_frames(path: Path) -> Iterator[Image.Image]:
    with Image.open(path) as file:
        for frame in ImageSequence.Iterator(file):
            yield frame.convert("RGB")


def _video_frames(path: Path) -> Iterator[Image.Image]:
    with av.open(str(path)) as container:
        stream = next(iter(container.streams.video), None)
        if stream is None:
            raise ValueError("the file has no video stream")
        stream.thread_type = "AUTO"
        for frame in container.decode(stream):
            image: Image.Image = frame.to_image()  # type: ignore[no-untyped-call]
            rotation = _UPRIGHT.get(round(frame.rotation) % 360)
            yield image if rotation is None else image.transpose(rotation)


def _read_tensor(path: Path, name: str) -> torch.Tensor:
    """Return the only array of the file, or the one called `name`."""
    if path.suffix == ".npy":
        return torch.from_numpy(np.load(path, allow_pickle=False))
    tensors = load_file(path)
    if name not in tensors and len(tensors) != 1:
        raise ValueError(f"it holds {len(tensors)} tensors and none is named {name}")
    return tensors[name] if name in tensors else next(iter(tensors.values()))
