"""Probe input files without decoding them: whether each can be read as its kind, and its size.

Every probe raises DiagnosticError for a file that cannot be used; its cause continues the file's name: "is empty".
"""

import os
import stat
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError

from omni_cli.errors import DiagnosticError
from omni_cli.storage.file_types import HEAD_BYTES, foreign_content, frame_files, is_animation
from omni_cli.storage.near_paths import near_miss
from omni_cli.storage.safetensors_header import read_header
from omni_cli.text import escape

_SWAPPING_ORIENTATIONS = (5, 6, 7, 8)
"""Values of the EXIF orientation (tag 0x0112) that swap width and height."""


class ProbedInput(NamedTuple):
    """Width and height in pixels of a picture or clip held upright, and a clip's frames per second if it gives them."""

    width: int
    height: int
    fps: float | None = None


def plain_file(path: str) -> Path:
    """Return `path`.

    Raises DiagnosticError unless it is a regular file that can be read, is not empty and holds no foreign content.
    """
    try:
        # O_NONBLOCK: opening a pipe must not wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        remedy = near_miss(path) if isinstance(error, FileNotFoundError | NotADirectoryError) else ""
        raise DiagnosticError(f"cannot be read: {error.strerror}", remedy) from error
    except ValueError as error:
        # Python words the first differently from version to version.
        cause = "a path holds no NUL character" if "\0" in path else str(error)
        raise DiagnosticError(f"cannot be a path: {cause}") from error
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise DiagnosticError("is a folder")
        if not stat.S_ISREG(status.st_mode):
            raise DiagnosticError("is a device, pipe or socket, not a file")
        if not status.st_size:
            raise DiagnosticError("is empty")
        content = foreign_content(os.read(descriptor, HEAD_BYTES))
    finally:
        os.close(descriptor)
    if content is not None and Path(path).suffix != ".npz":  # an archive by its nature
        raise DiagnosticError(f"is {content.name}", content.remedy)
    return Path(path)


def image(path: str) -> ProbedInput:
    """Return the size of the picture in `path`, from its header. Raises DiagnosticError if it cannot be used."""
    from PIL import Image, UnidentifiedImageError  # costs 0.1 s; most prompt files name no pictures

    source = plain_file(path)
    try:
        with warnings.catch_warnings():
            # Pillow warns of a big picture, and raises for one past its limit for decompression bombs.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(source) as picture:
                # `getexif` decodes a PNG unless its EXIF stands before the pixels.
                has_exif = picture.format != "PNG" or "exif" in picture.info
                is_turned = has_exif and picture.getexif().get(0x0112) in _SWAPPING_ORIENTATIONS
                width, height = picture.size
    except UnidentifiedImageError:
        raise DiagnosticError("is not an image that Pillow can read") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DiagnosticError(f"cannot be read as an image: {escape(str(error))[:200]}") from error
    return ProbedInput(height, width) if is_turned else ProbedInput(width, height)


def video(path: str) -> ProbedInput:
    """Return size and rate of the clip in `path`: a video file, an animated picture, or a folder of frames.

    Raises DiagnosticError if it cannot be used.
    """
    if Path(path).is_dir():
        frames = frame_files(path)
        if not frames:
            raise DiagnosticError("is a folder without pictures")
        return image(str(frames[0]))
    source = plain_file(path)
    if is_animation(path):
        return image(path)
    import av  # costs 0.1 s

    try:
        with av.open(str(source)) as container:
            stream = next(iter(container.streams.video), None)
            if stream is None:
                raise DiagnosticError("has no video stream")
            frame = next(container.decode(stream), None)
            rate = stream.average_rate
    except (av.FFmpegError, OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, av.FFmpegError | OSError) else str(error)
        raise DiagnosticError(f"cannot be read as a video: {escape(str(reason))[:200]}") from error
    if frame is None:
        raise DiagnosticError("has no frames")
    sides = (frame.height, frame.width) if frame.rotation % 180 else (frame.width, frame.height)
    return ProbedInput(*sides, float(rate) if rate else None)


def tensors(path: str) -> Mapping[str, tuple[int, ...]]:
    """Return the shape of each array in a `.safetensors` file by name; the array of a `.npy` file is named "".

    Raises DiagnosticError if the file cannot be used.
    """
    source = plain_file(path)
    if source.suffix == ".npy":
        return {"": _npy(source)}
    if source.suffix == ".safetensors":
        try:
            return {name: tensor.shape for name, tensor in read_header(source).items()}
        except (OSError, SafetensorError) as error:
            raise DiagnosticError(f"cannot be read as safetensors: {escape(str(error))[:200]}") from error
    raise DiagnosticError("is neither a .safetensors nor a .npy file")


def _npy(path: Path) -> tuple[int, ...]:
    import numpy as np  # costs 0.1 s

    try:
        shape: tuple[int, ...] = np.load(path, mmap_mode="r", allow_pickle=False).shape
    except (OSError, ValueError, EOFError) as error:
        raise DiagnosticError(f"cannot be read as .npy: {escape(str(error))[:200]}") from error
    return shape
