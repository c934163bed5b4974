from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin

from omni_cli.config import OutputConfig
from omni_cli.writers.finalize import Frames
from omni_cli.writers.write import write_output


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(frames: Frames, form: str, **options: object) -> Path:
        settings = OutputConfig(**options)  # type: ignore[arg-type]
        name = f"x.{form}"
        write_output(frames, tmp_path / name, name=name, format=form, fps=None, options=settings)
        return tmp_path / name

    return write


def pixels(path: Path, channels: int) -> np.ndarray:
    with Image.open(path) as image:
        array = np.asarray(image.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels]))
    return array.reshape(*array.shape[:2], channels)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size", [(65, 63), (1, 1), (128, 16)])
@pytest.mark.parametrize(
    ("form", "options"), [("png", {}), ("png", {"png_compression": 0}), ("webp", {"quality": 100})]
)
def test_png_and_webp_at_100_are_exact_alpha_included(
    still: Callable[..., Frames],
    written: Callable[..., Path],
    form: str,
    options: dict[str, int],
    size: tuple[int, int],
    channels: int,
) -> None:
    frames = still(*size, channels)
    assert np.array_equal(pixels(written(frames, form, **options), channels), frames.array[0])


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_and_lossy_webp_stay_near_and_keep_the_size(
    clip: Callable[..., Frames], written: Callable[..., Path], channels: int
) -> None:
    frames = clip(65, 63, 1, channels)
    for form, levels in (("jpeg", 2.0), ("webp", 4.0)):
        got = pixels(written(frames, form), channels).astype(int)
        assert got.shape == frames.array[0].shape
        assert np.abs(got - frames.array[0]).mean() < levels


def test_lossy_webp_keeps_alpha(clip: Callable[..., Frames], written: Callable[..., Path]) -> None:
    frames = clip(64, 64, 1, 4)
    assert np.array_equal(pixels(written(frames, "webp", quality=80), 4)[..., 3], frames.array[0, ..., 3])


def test_jpeg_keeps_full_chroma_from_quality_90(still: Callable[..., Frames], written: Callable[..., Path]) -> None:
    chroma = []
    for quality in (89, 90):
        with Image.open(written(still(), "jpeg", quality=quality)) as image:
            chroma.append(JpegImagePlugin.get_sampling(image))
    assert chroma == [2, 0]  # 4:2:0, 4:4:4


def test_quality_and_compression_are_obeyed(clip: Callable[..., Frames], written: Callable[..., Path]) -> None:
    frames = clip(128, 128, 1)
    for form in ("jpeg", "webp"):
        assert written(frames, form, quality=20).stat().st_size < written(frames, form, quality=95).stat().st_size
    sizes = [written(frames, "png", png_compression=level).stat().st_size for level in (9, 1, 0)]
    assert sizes == sorted(sizes)
    assert sizes[2] > frames.array.nbytes


def test_npy_is_exact_and_has_a_time_axis_for_video_only(
    clip: Callable[..., Frames], still: Callable[..., Frames], written: Callable[..., Path]
) -> None:
    for frames in (clip(65, 63, 4), clip(8, 8, 1), clip(8, 8, 3, 4)):
        array = np.load(written(frames, "npy"))
        assert array.dtype == np.uint8
        assert np.array_equal(array, frames.array)
    for frames in (still(), still(channels=1)):
        assert np.array_equal(np.load(written(frames, "npy")), frames.array[0])
