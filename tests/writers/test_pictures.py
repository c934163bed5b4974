"""16-bit PNG, AVIF, and animations by Pillow."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omni_cli.config import OutputConfig
from omni_cli.media import NORMALIZED, UNIT, ColorModel, Kind
from omni_cli.writers.animation import durations
from omni_cli.writers.finalize import Frames
from omni_cli.writers.formats import floats_for, resolve_format
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.write import write_output

COLORS = {1: ColorModel.GRAY, 3: ColorModel.RGB, 4: ColorModel.RGBA}


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(frames: Frames, form: str, fps: float = 8.0, metadata: Metadata | None = None, **options: object) -> Path:
        settings = OutputConfig(**options)  # type: ignore[arg-type]
        write_output(
            frames, tmp_path / f"x.{form}", name=f"x.{form}", format=form, fps=fps, options=settings, metadata=metadata
        )
        return tmp_path / f"x.{form}"

    return write


def deep_pixels(path: Path) -> np.ndarray:
    import av

    with av.open(str(path)) as container:
        return next(container.decode(video=0)).to_ndarray()


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_png16_holds_every_level_of_the_floats(written: Callable[..., Path], channels: int) -> None:
    array = np.random.default_rng(0).uniform(-1.1, 1.1, (1, 21, 33, channels)).astype(np.float32)
    frames = Frames(array, Kind.IMAGE, COLORS[channels], NORMALIZED)
    unit = np.clip(array[0] * np.float32(0.5) + np.float32(0.5), 0, 1)
    expected = np.round(unit * np.float32(65535)).astype(np.uint16)
    path = written(frames, "png16", png_compression=6)
    found = deep_pixels(path)
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)
    assert len(np.unique(found)) > 300
    assert path.read_bytes()[24] == 16  # the bit depth of IHDR


def test_png16_of_levels_is_exact_and_asks_for_floats(
    still: Callable[..., Frames], written: Callable[..., Path]
) -> None:
    frames = still()
    np.testing.assert_array_equal(deep_pixels(written(frames, "png16")), frames.array[0] * np.uint16(257))
    assert floats_for(resolve_format("png16"), OutputConfig()) == "16-bit PNG"
    assert floats_for(resolve_format("png"), OutputConfig()) == ""


def test_png16_says_how_it_was_made(
    still: Callable[..., Frames], written: Callable[..., Path], metadata: Callable[..., Metadata]
) -> None:
    path = written(still(), "png16", metadata=metadata(prompt="雨"))
    with Image.open(path) as image:
        image.load()
        assert image.info["omni_gen"] == metadata(prompt="雨").document
        assert image.info["parameters"] == metadata(prompt="雨").parameters()


@pytest.mark.parametrize("channels", [1, 3])
def test_avif_stays_near_and_keeps_the_size(
    clip: Callable[..., Frames], written: Callable[..., Path], metadata: Callable[..., Metadata], channels: int
) -> None:
    frames = Frames(clip(65, 63, 1, channels).array, Kind.IMAGE, COLORS[channels])
    with Image.open(written(frames, "avif", metadata=metadata())) as image:
        assert image.size == (65, 63)
        found = np.asarray(image.convert("L" if channels == 1 else "RGB")).reshape(frames.array[0].shape)
        assert np.abs(found.astype(int) - frames.array[0]).max() <= 6
        assert image.getexif().get_ifd(0x8769)[0x9286].startswith(b"UNICODE")
    assert written(frames, "avif", quality=20).stat().st_size < written(frames, "avif", quality=95).stat().st_size


@pytest.mark.parametrize(
    ("form", "options", "apart"), [("webp", {"quality": 100}, 0), ("webp", {}, 12), ("avif", {}, 10)]
)
@pytest.mark.parametrize("channels", [3, 4])
def test_an_animation_shows_every_frame_at_its_time(
    clip: Callable[..., Frames],
    written: Callable[..., Path],
    form: str,
    options: dict[str, object],
    apart: int,
    channels: int,
) -> None:
    frames = clip(64, 48, 7, channels)
    shown: list[tuple[float, np.ndarray]] = []
    now = 0.0
    with Image.open(written(frames, form, fps=24.0, **options)) as image:
        for number in range(image.n_frames):
            image.seek(number)
            image.load()
            shown.append((now, np.asarray(image.convert("RGBA" if channels == 4 else "RGB")).astype(int)))
            now += image.info["duration"]
        assert image.info.get("loop", 0) == 0
    assert abs(now - 7 * 1000 / 24) <= 1
    for number, frame in enumerate(frames.array):  # frames that came out alike are one, shown for longer
        _, pixels = [entry for entry in shown if entry[0] <= number * 1000 / 24 + 1][-1]
        assert np.abs(pixels - frame).max() <= apart
    assert len(shown) == 7 or form == "webp"


def test_rounded_durations_never_drift() -> None:
    assert sum(durations(2400, 23.976)) == round(2400 / 23.976 * 1000)
    assert set(durations(2400, 23.976)) == {41, 42}


def test_an_animation_has_one_frame_in_hand(written: Callable[..., Path]) -> None:
    array = np.random.default_rng(0).uniform(0, 1, (24, 64, 64, 3)).astype(np.float32)
    frames = Frames(array, Kind.VIDEO, ColorModel.RGB, UNIT)
    written(frames, "webp")
    tracemalloc.start()
    written(frames, "webp", quality=10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 * 64 * 64 * 3  # all levels together; what the encoder itself holds is not Python's
