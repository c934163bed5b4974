"""PNG with 16 bits per channel."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omni_cli.config import OutputConfig
from omni_cli.media import NORMALIZED, Kind
from omni_cli.writers.formats import floats_for, resolve_format
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.samples import Frames
from tests.writers.conftest import COLORS


def deep_pixels(path: Path) -> np.ndarray:
    import av

    with av.open(str(path)) as container:
        return next(container.decode(video=0)).to_ndarray()


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_png16_keeps_every_level_of_floats(written: Callable[..., Path], channels: int) -> None:
    array = np.random.default_rng(0).uniform(-1.1, 1.1, (1, 21, 33, channels)).astype(np.float32)
    frames = Frames(array, Kind.IMAGE, COLORS[channels], NORMALIZED)
    unit = np.clip(array[0] * np.float32(0.5) + np.float32(0.5), 0, 1)
    expected = np.round(unit * np.float32(65535)).astype(np.uint16)
    path = written(frames, "png16", png_compression=6)
    decoded = deep_pixels(path)
    np.testing.assert_array_equal(decoded.reshape(expected.shape), expected)
    assert len(np.unique(decoded)) > 300
    assert path.read_bytes()[24] == 16  # the bit depth of IHDR


def test_png16_of_uint8_is_exact_and_asks_for_floats(
    still: Callable[..., Frames], written: Callable[..., Path]
) -> None:
    frames = still()
    np.testing.assert_array_equal(deep_pixels(written(frames, "png16")), frames.array[0] * np.uint16(257))
    assert floats_for(resolve_format("png16"), OutputConfig()) == "16-bit PNG"
    assert floats_for(resolve_format("png"), OutputConfig()) == ""


def test_png16_has_the_metadata(
    still: Callable[..., Frames], written: Callable[..., Path], metadata: Callable[..., Metadata]
) -> None:
    path = written(still(), "png16", metadata=metadata(prompt="雨"))
    with Image.open(path) as image:
        image.load()
        assert image.info["omni_gen"] == metadata(prompt="雨").document
        assert image.info["parameters"] == metadata(prompt="雨").parameters()
