"""A clip as Pillow's writers of animations want it: a picture that becomes another one when it is sought. One frame in hand.

A list of pictures, the usual way, would hold the whole clip. `_mode` and `_size` are what Pillow's handbook has the author of an
image plugin set ("Writing your own image plugin"); such a plugin's opened file is what the writers take this for.
"""

from itertools import pairwise

from PIL import Image

from omni_cli.writers.finalize import Frames

MODES = {1: "L", 3: "RGB", 4: "RGBA"}


class Clip(Image.Image):
    """The frames of a clip of two or more, sought in order; going back starts over."""

    def __init__(self, frames: Frames) -> None:
        """At the first frame."""
        super().__init__()
        self._frames = frames
        self._mode, self._size = MODES[frames.channels], (frames.width, frames.height)
        self.n_frames, self.is_animated = len(frames), True
        self._restart()

    def seek(self, frame: int) -> None:
        """Become frame number `frame`; EOFError behind the last."""
        if frame >= self.n_frames:
            raise EOFError
        if frame < self._number:
            self._restart()
        while self._number < frame:
            self._next()

    def tell(self) -> int:
        """Number of the frame that this is."""
        return self._number

    def _restart(self) -> None:
        self._walk, self._number = iter(self._frames), -1
        self._next()

    def _next(self) -> None:
        pixels = next(self._walk)
        self.im = Image.frombuffer(self.mode, self.size, pixels, "raw", self.mode, 0, 1).im
        self._number += 1


def durations(count: int, fps: float) -> list[int]:
    """Milliseconds of each frame: whole ones, rounded so that every frame begins within half of one of its time."""
    starts = [round(1000 * number / fps) for number in range(count + 1)]
    return [end - start for start, end in pairwise(starts)]
