"""The picture that stands for an output: the image itself, or the first frame of a clip."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omni_cli.storage.file_types import SOUNDS
from omni_cli.writers.readback import read_frames, read_sound

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

_PEAK_SAMPLES = 256
"""Samples of which the loudest is kept: 5 ms at 48 kHz."""

_WAVE = "#5f93d6"
"""A blue that shows on white and on black."""

_BY_PILLOW = frozenset({".png", ".jpg", ".jpeg", ".webp", ".avif", ".gif"})


def first_picture(path: Path, max_side: int) -> "Image | None":
    """Return the picture of the output at `path`, RGB or RGBA, scaled down to `max_side` pixels; None if it has none.

    Sound has its waveform; latents and arrays of anything but levels have none. Raises whatever the decoder raises for
    a broken file.
    """
    from PIL import Image, ImageOps  # loaded only where files are shown

    if path.suffix.lower() in SOUNDS:
        return waveform(path, max_side)
    picture: Image.Image | None = None
    if path.suffix.lower() in _BY_PILLOW:
        with Image.open(path) as file:
            if not file.mode.startswith("I;16"):  # Pillow clips 16-bit grey
                file.draft("RGB", (max_side, max_side))  # JPEG: decode at a fraction of the size
                picture = ImageOps.exif_transpose(file).convert("RGBA" if file.has_transparency_data else "RGB")
    if picture is None and (picture := next(frame_pictures(path), None)) is None:
        return None
    picture.thumbnail((max_side, max_side), Image.Resampling.BOX, reducing_gap=2.0)
    return picture


def frame_pictures(path: Path) -> "Iterator[Image]":
    """Yield every frame of a video, animation, folder of frames or array file as RGB or RGBA; none without levels."""
    for values in read_frames(path):
        for frame in values if values.ndim == 4 else [values]:
            if (picture := _as_picture(frame)) is not None:
                yield picture


def _as_picture(values: "NDArray[Any]") -> "Image | None":
    """Return levels, or floats in 0..1, [H, W, C] as a picture; None for other values."""
    import numpy as np
    from PIL import Image

    if values.dtype == np.float32 and values.size and values.min() >= 0 and values.max() <= 1:
        values = np.round(values * np.float32(255)).astype(np.uint8)
    if values.dtype not in (np.uint8, np.uint16) or values.ndim != 3 or values.shape[2] not in (1, 3, 4):
        return None
    scale = 256 if values.dtype == np.uint16 else 1
    levels = np.ascontiguousarray(values // scale, np.uint8)
    picture = Image.fromarray(levels[..., 0] if levels.shape[2] == 1 else levels)
    return picture.convert("RGBA" if levels.shape[2] == 4 else "RGB")


def waveform(path: Path, width: int) -> "Image | None":
    """Draw the largest level of a sound over its length, `width` pixels wide; None if there is no sound in it.

    A column is as high as the loudest sample of any channel in it, of full scale; the ground is transparent.
    """
    import numpy as np
    from PIL import Image, ImageDraw

    peaks = [
        float(np.abs(part).max())
        for sound in read_sound(path)
        for part in np.array_split(sound, max(1, sound.shape[1] // _PEAK_SAMPLES), axis=1)
    ]
    if not peaks:
        return None
    picture = Image.new("RGBA", (width, width // 2))
    draw, middle = ImageDraw.Draw(picture), width // 4
    for column in range(width):
        begin = column * len(peaks) // width
        peak = max(peaks[begin : max(begin + 1, (column + 1) * len(peaks) // width)])
        half = round(min(1.0, peak) * (middle - 2))
        draw.line((column, middle - half, column, middle + half), _WAVE)
    return picture
