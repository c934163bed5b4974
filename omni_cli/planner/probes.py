"""Input files looked at without decoding them: whether they can be read as what they are meant to be, and their size.

Whatever is wrong with a file is raised as Unusable, in words that follow its name: "is empty".
"""

import os
import stat
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from omni_cli.inputs import frame_files, is_animation
from omni_cli.prompts.shown import escaped

MAX_HEADER = 100_000_000
"""Bytes of a safetensors header, by the format's own rule."""

_TURNED = (5, 6, 7, 8)
"""Values of the EXIF orientation (tag 0x0112) that swap width and height."""


class Unusable(Exception):
    """Why a file cannot be an input."""


class Look(NamedTuple):
    """What an upright picture or clip is: pixels, and frames per second of a clip that says."""

    width: int
    height: int
    fps: float | None = None


class _Entry(msgspec.Struct):
    """One tensor in the header of a safetensors file."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def plain_file(path: str) -> Path:
    """`path` as a regular file that can be read and is not empty."""
    try:
        # O_NONBLOCK: a pipe must not be waited for. A device is refused by what it is, not by what it gives.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Unusable(f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Unusable(f"cannot be a path: {error}") from error
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if stat.S_ISDIR(found.st_mode):
        raise Unusable("is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise Unusable("is a device, pipe or socket, not a file")
    if not found.st_size:
        raise Unusable("is empty")
    return Path(path)


def image(path: str) -> Look:
    """The upright size of the picture in `path`, by its header."""
    from PIL import Image, UnidentifiedImageError  # costs 0.1 s; most prompt files name no pictures

    source = plain_file(path)
    try:
        with warnings.catch_warnings():
            # A big picture is the user's business until it is past what Pillow calls an attack, which is an error.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(source) as found:
                # Asking a PNG for EXIF that does not stand before its pixels would decode them.
                asked = found.format != "PNG" or "exif" in found.info
                turned = asked and found.getexif().get(0x0112) in _TURNED
                width, height = found.size
    except UnidentifiedImageError:
        raise Unusable("is not an image that Pillow can read") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise Unusable(f"cannot be read as an image: {escaped(str(error))[:200]}") from error
    return Look(height, width) if turned else Look(width, height)


def video(path: str) -> Look:
    """Size and rate of the clip in `path`: a video file, an animated picture, or a folder of frames."""
    if Path(path).is_dir():
        frames = frame_files(path)
        if not frames:
            raise Unusable("is a folder without pictures")
        return image(str(frames[0]))
    source = plain_file(path)
    if is_animation(path):
        return image(path)
    import av  # costs 0.1 s

    try:
        with av.open(str(source)) as container:
            stream = next(iter(container.streams.video), None)
            if stream is None:
                raise Unusable("has no video stream")
            frame = next(container.decode(stream), None)
            rate = stream.average_rate
    except (av.FFmpegError, OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, av.FFmpegError | OSError) else str(error)
        raise Unusable(f"cannot be read as a video: {escaped(str(reason))[:200]}") from error
    if frame is None:
        raise Unusable("has no frames")
    sides = (frame.height, frame.width) if frame.rotation % 180 else (frame.width, frame.height)
    return Look(*sides, float(rate) if rate else None)


def tensors(path: str) -> Mapping[str, tuple[int, ...]]:
    """Name -> shape of the arrays in a `.safetensors` file; the one array of a `.npy` file is named ""."""
    source = plain_file(path)
    if source.suffix == ".npy":
        return {"": _npy(source)}
    if source.suffix == ".safetensors":
        return {name: entry.shape for name, entry in _safetensors(source).items()}
    raise Unusable("is neither a .safetensors nor a .npy file")


def _npy(path: Path) -> tuple[int, ...]:
    import numpy as np  # costs 0.1 s

    try:
        found: tuple[int, ...] = np.load(path, mmap_mode="r", allow_pickle=False).shape
    except (OSError, ValueError, EOFError) as error:
        raise Unusable(f"cannot be read as .npy: {escaped(str(error))[:200]}") from error
    return found


def _safetensors(path: Path) -> dict[str, _Entry]:
    """The header: eight bytes of length, then JSON; the numbers stand behind it."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(MAX_HEADER, path.stat().st_size - 8):
            raise Unusable("is not a safetensors file, or only a part of one")
        raw = file.read(length)
    try:
        header = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        header.pop("__metadata__", None)
        found = {name: msgspec.json.decode(entry, type=_Entry) for name, entry in header.items()}
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unusable(f"has a header that cannot be read: {escaped(str(error))[:200]}") from error
    size = path.stat().st_size - 8 - length
    for name, entry in found.items():
        start, end = entry.data_offsets
        if not 0 <= start <= end <= size:
            raise Unusable(f"is cut short, or broken: the place of {escaped(name)[:40]} is not in it")
    return found
