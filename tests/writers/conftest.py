"""Clips to encode, and what a player would see of the result."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from omni_cli.media import ColorModel, Kind
from omni_cli.request import GenerationRequest, ModelInfo, PlannedRequest
from omni_cli.writers.finalize import Frames
from omni_cli.writers.metadata import Metadata

COLORS = {1: ColorModel.GRAY, 3: ColorModel.RGB, 4: ColorModel.RGBA}


@dataclass(frozen=True)
class Decoded:
    """frames: uint8 [T, H, W, 3], converted from BT.709 limited range for YUV, as they are for RGB."""

    frames: np.ndarray
    fps: Fraction | None
    times: list[Fraction]
    tags: tuple[int, int, int, int]
    pixel_format: str
    comment: str | None


@pytest.fixture
def still() -> Callable[..., Frames]:
    """Frames of one random image."""

    def make(width: int = 65, height: int = 63, channels: int = 3, seed: int = 0) -> Frames:
        pixels = np.random.default_rng(seed).integers(0, 256, (1, height, width, channels), dtype=np.uint8)
        pixels.flags.writeable = False
        return Frames(pixels, Kind.IMAGE, COLORS[channels])

    return make


@pytest.fixture
def clip() -> Callable[..., Frames]:
    """Frames of a smooth moving gradient."""

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


@pytest.fixture
def planned() -> Callable[..., PlannedRequest]:
    """A planned request of two samples, seeds 7 and 11."""

    def make(**fields: object) -> PlannedRequest:
        said = {"id": "r1", "prompt": "a red ball", "seed": 7, "width": 64, "height": 48, "num_outputs": 2} | fields
        request = GenerationRequest(**said)  # type: ignore[arg-type]
        return PlannedRequest(
            request=request, index=0, seeds=(7, 11), files=("r1-0.png", "r1-1.png"), fingerprint="f00d"
        )

    return make


@pytest.fixture
def model() -> ModelInfo:
    """A model with a name that needs quoting."""
    return ModelInfo(id="org/model: v1", revision="abc", pipeline="WanPipeline", dtype="bfloat16")


@pytest.fixture
def metadata(planned: Callable[..., PlannedRequest], model: ModelInfo) -> Callable[..., Metadata]:
    """Metadata of the first sample of a request with these fields."""
    return lambda **fields: Metadata.of(planned(**fields), model, 0)
