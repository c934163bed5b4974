"""How much room a run's files will take, before anything is rendered, and how much there is. Data and arithmetic, no torch.

Two figures for each format, in bytes per pixel of RGB and per file. `least` is a drawn scene (one disc on one colour), encoded at
the settings that make it smallest: no model's picture needs less, so a disk without that much cannot hold the run. `typical` is a
picture with the spectrum of a photograph (luminance 1/f^1.1, chroma 1/f^1.4, one level of noise), at the default settings, moving
two pixels a frame. Measured on 768x768 stills and 480x832x33 clips (GIF: 256x256x33), with Pillow 13 and PyAV 18. Where `least` is
0 it has not been measured, and nothing is refused; sound is not counted.
"""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from omni_cli.config import OutputConfig
from omni_cli.request import GenerationRequest

ROW_BYTES = 1000
"""A row of the manifest, without its prompt (measured: 900 to 1100)."""


@dataclass(frozen=True, slots=True)
class Density:
    """Bytes per pixel and per file: the least and what is typical."""

    least: float
    typical: float
    file_bytes: int = 0


_DENSITIES = {
    "png": Density(0.006, 2.4),
    "jpeg": Density(0.017, 0.85),
    "webp": Density(0.001, 0.63),
    "npy": Density(3.0, 3.0, 128),
    "mp4": Density(0.0004, 0.022, 1500),
    "webm": Density(0.0003, 0.037, 500),
    "gif": Density(0.007, 1.05, 800),
    "frames": Density(0.006, 2.4),
    "npz": Density(3.0, 3.0, 500),
    "safetensors": Density(3.0, 3.0, 100),
    "png16": Density(0.0, 6.0),
    "avif": Density(0.0, 0.63),
    "mov": Density(0.0, 0.022, 1500),
    "mkv": Density(0.0, 0.022, 500),
}
_CONTAINERS = frozenset({"mp4", "webm", "mov", "mkv"})
_RAW = 3.0
_UNKNOWN = Density(0.0, _RAW)
"""For a format that has not been measured: nothing is refused for it, and what is typical is the pixels themselves."""

_LOSSLESS_WEBP = 1.75


@dataclass(frozen=True, slots=True)
class Room:
    """Room for a number of files: `least` and `typical` are bytes. Sums are exact for any number of requests."""

    files: int = 0
    least: int = 0
    typical: int = 0

    def __add__(self, other: Self) -> "Room":
        """Room for both."""
        return Room(self.files + other.files, self.least + other.least, self.typical + other.typical)


def room_for(request: GenerationRequest, options: OutputConfig) -> Room:
    """Room for the files of `request`, which planning has given a format.

    Of a size that nobody has said, which the pipeline will choose, nothing is known but the number of files.
    """
    density = _density(request.format or "", options)
    outputs = request.num_outputs or 1
    frames = ((request.num_frames or 1) - 1) * (request.interpolate or 1) + 1
    pixels = (request.height or 0) * (request.width or 0) * frames
    return Room(
        outputs * (frames if request.format == "frames" else 1),
        outputs * math.floor(pixels * density.least + density.file_bytes),
        outputs * math.ceil(pixels * density.typical + density.file_bytes),
    )


def row_room(request: GenerationRequest) -> Room:
    """Room for the manifest row of `request`."""
    row = ROW_BYTES + len(request.prompt or "")
    return Room(0, row, row)


def _density(name: str, options: OutputConfig) -> Density:
    """The format's figures; those of the settings that store pixels without loss where they do."""
    if name == "png" and options.png_compression == 0:
        return Density(_RAW, _RAW)
    if name == "webp" and options.quality == 100:
        return Density(_DENSITIES[name].least, _LOSSLESS_WEBP)
    if options.codec is not None and name in _CONTAINERS:
        return Density(0.0, _DENSITIES[name].typical)
    return _DENSITIES.get(name, _UNKNOWN)


@dataclass(frozen=True, slots=True)
class Free:
    """What the file system of a folder still takes from this user. `files` is None where it sets no limit on their number."""

    bytes: int
    files: int | None


def free_in(folder: Path) -> Free:
    """What is free where `folder` is, or where it will be made. Raises OSError. Quotas of a user are not in it."""
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    facts = os.statvfs(existing)
    return Free(facts.f_bavail * facts.f_frsize, facts.f_favail if facts.f_files else None)
