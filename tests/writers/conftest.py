"""Images and clips to encode, and a player's view of the file."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omni_cli.config import OutputConfig
from omni_cli.media import ColorModel, Kind
from omni_cli.request import ModelInfo, PlannedRequest
from omni_cli.writers import Frames, Metadata, OutputTarget, Sample, write_output
from tests.factories import planned

COLORS = {1: ColorModel.GRAY, 3: ColorModel.RGB, 4: ColorModel.RGBA}


@dataclass(frozen=True)
class Decoded:
    """A decoded video. `frames`: uint8 [T, H, W, 3], converted from BT.709 limited range if it was YUV."""

    frames: np.ndarray
    fps: Fraction | None
    times: list[Fraction]
    tags: tuple[int, int, int, int]
    pixel_format: str
    comment: str | None


@pytest.fixture
def still() -> Callable[..., Frames]:
    """Make a random image."""

    def make(width: int = 65, height: int = 63, channels: int = 3, seed: int = 0) -> Frames:
        pixels = np.random.default_rng(seed).integers(0, 256, (1, height, width, channels), dtype=np.uint8)
        pixels.flags.writeable = False
        return Frames(pixels, Kind.IMAGE, COLORS[channels])

    return make


@pytest.fixture
def clip() -> Callable[..., Frames]:
    """Make a clip of a smooth moving gradient."""

    def make(width: int = 64, height: int = 64, count: int = 5, channels: int = 3) -> Frames:
        pixels = np.empty((count, height, width, channels), np.uint8)
        rows, columns = np.mgrid[:height, :width]
        for index in range(count):
            for channel in range(channels):
                pixels[index, ..., channel] = (rows * (channel + 1) + columns + 4 * index) // 3 % 200 + 20
        pixels.flags.writeable = False
        return Frames(pixels, Kind.VIDEO, COLORS[channels])

    return make


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write a sample as `NAME.FORMAT` into `tmp_path` with these output settings, and return its path."""

    def write(
        sample: Sample,
        form: str,
        metadata: Metadata | None = None,
        *,
        fps: float = 8.0,
        name: str = "x",
        **options: object,
    ) -> Path:
        settings = OutputConfig(**options)  # type: ignore[arg-type]
        write_output(sample, OutputTarget(tmp_path, f"{name}.{form}", form, fps, settings, metadata))
        return tmp_path / f"{name}.{form}"

    return write


@pytest.fixture
def decode() -> Callable[[Path], Decoded]:
    """Decode a video file with PyAV."""
    import av
    from av.video.reformatter import ColorRange, Colorspace

    def read(path: Path) -> Decoded:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            pictures = list(container.decode(stream))
            fps = stream.average_rate
            comment = {key.lower(): value for key, value in container.metadata.items()}.get("comment")
        first = pictures[0]
        if first.format.is_rgb:
            arrays = [picture.to_ndarray(format="rgb24") for picture in pictures]
        else:
            arrays = [
                picture.reformat(
                    format="rgb24",
                    src_colorspace=Colorspace.ITU709,
                    src_color_range=ColorRange.MPEG,
                    dst_color_range=ColorRange.JPEG,
                ).to_ndarray()
                for picture in pictures
            ]
        return Decoded(
            frames=np.stack(arrays),
            fps=fps,
            times=[picture.pts * picture.time_base for picture in pictures],
            tags=(first.color_primaries, first.color_trc, first.colorspace, first.color_range),
            pixel_format=first.format.name,
            comment=comment,
        )

    return read


def two_samples(**fields: Any) -> PlannedRequest:
    """A planned request of two samples, seeds 7 and 11."""
    defaults = {"prompt": "a red ball", "seed": 7, "width": 64, "height": 48}
    return planned("r1", seeds=(7, 11), fingerprint="f00d", **{**defaults, **fields})


@pytest.fixture
def model() -> ModelInfo:
    """A model with a name that needs quoting."""
    return ModelInfo(id="org/model: v1", revision="abc", pipeline="WanPipeline", dtype="bfloat16")


@pytest.fixture
def metadata(model: ModelInfo) -> Callable[..., Metadata]:
    """Metadata of the first sample of a request with these fields."""
    return lambda **fields: Metadata.of(two_samples(**fields), model, 0)
