"""Whether all arms made the same pictures, pixel by pixel, from the files they left.

Lossless files are compared as they are. Lossy ones are compared between arms with the same encoder as decoded frames; the plain
loop's encoder has other settings, so its levels are compared before encoding, from a pass that writes arrays and is not measured.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, cast

from omni_cli.errors import EngineError

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
    """`difference` over the files `names` of two folders. Raises EngineError if one is missing."""
    found = Difference()
    for name in names:
        for path in (one / name, other / name):
            if not path.is_file():
                raise EngineError(f"bench: {path} is missing; something else writes into the bench's folder")
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
