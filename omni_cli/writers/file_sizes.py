"""Disk space of a run's files, estimated before anything is rendered, and the space that is free. Plain arithmetic.

Two figures per format, in bytes per pixel of RGB and per file. `least` is a drawn scene (one disc on one colour) at the
settings that make it smallest: no picture of a model needs less, so a disk without that much space cannot hold the run.
`typical` is a picture with the spectrum of a photograph (luminance 1/f^1.1, chroma 1/f^1.4, one level of noise), at the
default settings, moving two pixels a frame. Measured on 768x768 stills and 480x832x33 clips (GIF: 256x256x33), with
Pillow 13 and PyAV 18. A `least` of 0 was not measured, and nothing is refused for it. Sound is not counted.
"""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from omni_cli.config import OutputConfig
from omni_cli.request import GenerationRequest
from omni_cli.writers.formats import ARRAYS, VIDEO_CONTAINERS, output_of

ROW_BYTES = 1000
"""Bytes of a manifest row without its prompt (measured: 900 to 1100)."""


@dataclass(frozen=True, slots=True)
class SizeFigures:
    """Least and typical bytes per pixel of a format, and bytes per file."""

    least: float
    typical: float
    file_bytes: int = 0


_FIGURES = {
    "png": SizeFigures(0.006, 2.4),
    "jpeg": SizeFigures(0.017, 0.85),
    "webp": SizeFigures(0.001, 0.63),
    "npy": SizeFigures(3.0, 3.0, 128),
    "mp4": SizeFigures(0.0004, 0.022, 1500),
    "webm": SizeFigures(0.0003, 0.037, 500),
    "gif": SizeFigures(0.007, 1.05, 800),
    "frames": SizeFigures(0.006, 2.4),
    "npz": SizeFigures(3.0, 3.0, 500),
    "safetensors": SizeFigures(3.0, 3.0, 100),
    "png16": SizeFigures(0.0, 6.0),
    "avif": SizeFigures(0.0, 0.63),
    "mov": SizeFigures(0.0, 0.022, 1500),
    "mkv": SizeFigures(0.0, 0.022, 500),
}
_UNCOMPRESSED = 3.0
_UNMEASURED = SizeFigures(0.0, _UNCOMPRESSED)
_LOSSLESS_WEBP = 1.75


@dataclass(frozen=True, slots=True)
class SpaceEstimate:
    """Number of files, and their least and typical bytes. Sums are exact for any number of requests."""

    files: int = 0
    least: int = 0
    typical: int = 0

    def __add__(self, other: Self) -> "SpaceEstimate":
        """Return the space of both."""
        return SpaceEstimate(self.files + other.files, self.least + other.least, self.typical + other.typical)


def estimate_files(request: GenerationRequest, options: OutputConfig) -> SpaceEstimate:
    """Estimate the files of `request`, which planning has given a format.

    Where the pipeline will choose the size, only the number of files is known.
    """
    figures = _size_figures(request.format or "", output_of(request, options))
    outputs = request.num_outputs or 1
    frames = ((request.num_frames or 1) - 1) * (request.interpolate or 1) + 1
    pixels = (request.height or 0) * (request.width or 0) * frames
    return SpaceEstimate(
        outputs * (frames if request.format == "frames" else 1),
        outputs * math.floor(pixels * figures.least + figures.file_bytes),
        outputs * math.ceil(pixels * figures.typical + figures.file_bytes),
    )


def estimate_row(request: GenerationRequest) -> SpaceEstimate:
    """Estimate the manifest row of `request`."""
    row = ROW_BYTES + len(request.prompt or "")
    return SpaceEstimate(0, row, row)


def _size_figures(format_name: str, options: OutputConfig) -> SizeFigures:
    """Return the figures of a format, adjusted where `options` store pixels uncompressed, lossless or in any codec."""
    if format_name == "png" and options.png_compression == 0:
        return SizeFigures(_UNCOMPRESSED, _UNCOMPRESSED)
    if format_name in ARRAYS and options.float_arrays:
        figures = _FIGURES[format_name]
        return SizeFigures(4 * figures.least, 4 * figures.typical, figures.file_bytes)
    if format_name == "webp" and options.quality == 100:
        return SizeFigures(_FIGURES[format_name].least, _LOSSLESS_WEBP)
    if options.codec is not None and format_name in VIDEO_CONTAINERS:
        return SizeFigures(0.0, _FIGURES[format_name].typical)
    return _FIGURES.get(format_name, _UNMEASURED)


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """Free bytes and files of a file system for this user. `files` is None where their number is not limited."""

    bytes: int
    files: int | None


def free_space(folder: Path) -> FreeSpace:
    """Return the free space where `folder` is or will be created, the user's quotas ignored. Raises OSError."""
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    status = os.statvfs(existing)
    return FreeSpace(status.f_bavail * status.f_frsize, status.f_favail if status.f_files else None)
