"""What was written, read back: the frames of a file, how two files differ, and the document that says how one was made."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from omni_cli.errors import OutputFolderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Frame = NDArray[np.uint8]

LOSSLESS = frozenset({"png", "npy"})


@dataclass(frozen=True, slots=True)
class Difference:
    """Between two sets of pictures: the largest difference in levels (256: not even the same size), over `frames` frames."""

    levels: int = 0
    frames: int = 0

    def __or__(self, other: "Difference") -> "Difference":
        """Both together."""
        return Difference(max(self.levels, other.levels), self.frames + other.frames)


def difference(one: Path, other: Path) -> Difference:
    """The largest difference between any two pixels at the same place of two image, video or array files."""
    import numpy as np

    found = Difference()
    for left, right in zip_longest(frames_of(one), frames_of(other)):
        if left is None or right is None or left.shape != right.shape:
            return Difference(256, found.frames)
        # Wide enough for -255..255: levels are unsigned and would wrap.
        apart = int(np.abs(left.astype(np.int16) - right.astype(np.int16)).max())
        found |= Difference(apart, 1)
    return found


def folders_differ(one: Path, other: Path, names: list[str]) -> Difference:
    """`difference` over the files `names` of two folders. Raises OutputFolderError if one is missing."""
    found = Difference()
    for name in names:
        for path in (one / name, other / name):
            if not path.is_file():
                raise OutputFolderError(f"{str(path)!r} is missing; something else changes the folder")
        found |= difference(one / name, other / name)
    return found


def frames_of(path: Path) -> "Iterator[Frame]":
    """The decoded frames of a file, uint8 [H, W, C], one at a time."""
    import numpy as np

    if path.suffix == ".npy":
        levels = np.load(path, mmap_mode="r")
        yield from levels if levels.ndim == 4 else levels[None]
    elif path.suffix in (".mp4", ".webm"):
        import av

        with av.open(str(path)) as container:
            for frame in container.decode(video=0):
                yield cast("Frame", frame.to_ndarray(format="rgb24"))
    else:
        from PIL import Image, ImageSequence

        with Image.open(path) as image:
            for picture in ImageSequence.Iterator(image):
                yield np.asarray(picture.convert("RGB"))


def document_of(path: Path) -> dict[str, Any] | None:
    """The JSON document that a file of ours carries (see `metadata`), or None: not ours, without metadata, or a format without room.

    Raises OSError if the file cannot be read. What it holds is a stranger's data: check it before use.
    """
    text: object = None
    if path.suffix in (".mp4", ".webm", ".mov", ".mkv"):
        import av

        try:
            with av.open(str(path)) as container:
                found = {key.lower(): value for key, value in container.metadata.items()}
        except av.FFmpegError as error:
            raise OSError(f"cannot be read as video: {error}") from error
        text = found.get("comment")
    elif path.suffix in (".png", ".gif", ".apng"):
        from PIL import Image

        with Image.open(path) as image:
            text = image.info.get("omni_gen", image.info.get("comment"))
    return _decoded(text)


def _decoded(text: object) -> dict[str, Any] | None:
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if not isinstance(text, str):
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "request" in document else None
