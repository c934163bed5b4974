"""Reading outputs back: the frames of a file, the difference between two files, and the metadata document."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from safetensors import safe_open

from omni_cli.errors import OutputFolderError
from omni_cli.storage.file_types import SOUNDS, VIDEOS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.generic]

LOSSLESS = frozenset({"png", "npy"})


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between two sets of frames.

    `levels`: the largest, 0..255; 256 if they differ in shape or dtype. `frames`: number of frames compared. `total`:
    the sum of all differences in levels, over `values` values; neither counts in a comparison of Differences.
    """

    levels: int = 0
    frames: int = 0
    total: float = field(default=0.0, compare=False)
    values: int = field(default=0, compare=False)

    @property
    def mean(self) -> float:
        """The mean difference of a value in levels."""
        return self.total / self.values if self.values else 0.0

    def __or__(self, other: "Difference") -> "Difference":
        """Return the difference over the frames of both."""
        return Difference(
            max(self.levels, other.levels),
            self.frames + other.frames,
            self.total + other.total,
            self.values + other.values,
        )


def difference(one: Path, other: Path) -> Difference:
    """Compare two files or folders of frames value by value, and their sound.

    Values beyond uint8 (sound, floats, 16-bit levels) are scaled to levels: 255 is the whole range of a picture or
    sound, and any difference at all counts as at least one level.
    """
    total = Difference()
    for left, right in zip_longest(read_frames(one), read_frames(other)):
        if left is None or right is None or left.shape != right.shape:
            return Difference(256, total.frames)
        total |= _compare(left, right, 1)
    for left, right in zip_longest(read_sound(one), read_sound(other)):
        if left is None or right is None or left.shape != right.shape:
            return Difference(256, total.frames)
        total |= _compare(left, right, 0 if total.frames else 1)
    return total


def _compare(left: "Values", right: "Values", frames: int) -> Difference:
    """Return the difference of two arrays of equal shape, which count as `frames` frames."""
    import numpy as np  # loaded only where files are compared

    if left.dtype != right.dtype:
        return Difference(256, frames)
    # float64 holds any difference: unsigned levels would wrap.
    distance = np.abs(left.astype(np.float64) - right.astype(np.float64))
    value_range = 65535 if left.dtype == np.uint16 else 255 if left.dtype == np.uint8 else 2.0
    largest = float(distance.max(initial=0.0))
    levels = 0 if largest == 0 else min(255, max(1, round(largest * 255 / value_range)))
    return Difference(levels, frames, float(distance.sum()) * 255 / value_range, distance.size)


def folders_differ(one: Path, other: Path, names: list[str]) -> Difference:
    """Compare the files `names` of two folders. Raises OutputFolderError if one is missing."""
    total = Difference()
    for name in names:
        for path in (one / name, other / name):
            if not path.is_file():
                raise OutputFolderError(f"{str(path)!r} is missing; another process changes the folder")
        total |= difference(one / name, other / name)
    return total


def read_frames(path: Path) -> "Iterator[Values]":
    """Yield the decoded frames of a file or folder of frames: uint8 [H, W, C], or uint16 for a 16-bit picture.

    Arrays (npz, safetensors, npy) are yielded as they are, a clip in an npy file frame by frame. A sound file has no
    frames.
    """
    import numpy as np  # see _compare

    if path.is_dir():
        for picture in sorted(path.glob("*.png")):
            yield from read_frames(picture)
    elif path.suffix == ".npy":
        levels = np.load(path, mmap_mode="r")
        yield from levels if levels.ndim == 4 else levels[None]
    elif path.suffix == ".npz":
        with np.load(path) as arrays:
            for name in sorted(set(arrays) - {"metadata"}):
                yield arrays[name]
    elif path.suffix == ".safetensors":
        with safe_open(path, framework="np") as tensors:
            for name in sorted(tensors.keys()):
                yield tensors.get_tensor(name)
    elif path.suffix in VIDEOS:
        yield from _decode_video(path, "rgb24")
    elif path.suffix not in SOUNDS:
        yield from _decode_image(path)


def _decode_video(path: Path, pixel_format: str) -> "Iterator[Values]":
    """Yield every frame as [H, W, 3] in libav's `pixel_format`."""
    import av  # see _compare

    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            yield cast("Values", frame.to_ndarray(format=pixel_format))


def _decode_image(path: Path) -> "Iterator[Values]":
    """Yield the picture, or every frame of an animation, as [H, W, C]."""
    import numpy as np  # see _compare
    from PIL import Image, ImageSequence

    with path.open("rb") as file:
        # Pillow reads 16-bit colour as 8 bits: the depth is the byte behind width and height (PNG, section 11.2.2).
        is_deep = path.suffix == ".png" and file.read(25)[24:] == b"\x10"
    if is_deep:
        yield from _decode_video(path, "rgb48le")
        return
    with Image.open(path) as image:
        for picture in ImageSequence.Iterator(image):
            yield np.asarray(picture.convert("RGBA" if picture.has_transparency_data else "RGB"))


def read_sound(path: Path) -> "Iterator[Values]":
    """Yield the decoded sound as float32 [C, S] per packet; nothing for a file without sound."""
    import av  # see _compare
    import numpy as np

    if path.is_dir():
        path = path / "audio.wav"
    if path.suffix not in VIDEOS | SOUNDS or not path.is_file():
        return
    with av.open(str(path)) as container:
        if not container.streams.audio:
            return
        resampler = av.AudioResampler(format="fltp", layout=container.streams.audio[0].layout)
        for frame in container.decode(audio=0):
            for part in resampler.resample(frame):
                yield part.to_ndarray().astype(np.float32)


def read_document(path: Path) -> dict[str, Any] | None:
    """Return the JSON document in a file (see `metadata`), unvalidated; None if there is none.

    Raises OSError if the file cannot be read.
    """
    text: object = None
    if path.is_dir():
        path = path / "000000.png"
    if path.suffix in VIDEOS:
        import av  # see _compare

        try:
            with av.open(str(path)) as container:
                tags = {key.lower(): value for key, value in container.metadata.items()}
        except av.FFmpegError as error:
            raise OSError(f"cannot be read as video: {error}") from error
        text = tags.get("comment")
    elif path.suffix in (".png", ".gif", ".apng"):
        from PIL import Image

        with Image.open(path) as image:
            text = image.info.get("omni_gen", image.info.get("comment"))
    return _parse_document(text)


def _parse_document(text: object) -> dict[str, Any] | None:
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if not isinstance(text, str):
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "request" in document else None
