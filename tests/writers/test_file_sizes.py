"""Disk space of files: at least that of a drawn scene, about that of a picture."""

from pathlib import Path

import numpy as np
import pytest

from omni_cli.config import OutputConfig
from omni_cli.media import ColorModel, Kind
from omni_cli.request import GenerationRequest
from omni_cli.writers.file_sizes import ROW_BYTES, FreeSpace, SpaceEstimate, estimate_files, estimate_row, free_space
from omni_cli.writers.formats import FORMATS
from omni_cli.writers.output_target import OutputTarget
from omni_cli.writers.samples import Frames
from omni_cli.writers.write import write_output
from tests.disks import fill, small_disk

SIDE = 256
LENGTHS = {"mp4": 33, "webm": 33, "gif": 4}
SMALLEST = OutputConfig(png_compression=9, quality=1, crf=51)


def scene(count: int) -> np.ndarray:
    """Return a disc that moves over one colour, uint8 [T, H, W, 3]: simpler than any picture of a model."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    pixels = np.full((count, SIDE, SIDE, 3), (30, 60, 200), np.uint8)
    for index in range(count):
        pixels[index][np.hypot(rows - SIDE / 2, columns - SIDE / 3 - 2 * index) < SIDE / 5] = (220, 30, 30)
    return pixels


def photograph(count: int) -> np.ndarray:
    """Return moving noise with the spectrum of a photograph, uint8 [T, H, W, 3]."""
    random, size = np.random.default_rng(0), SIDE + 2 * count
    pitch = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.fftfreq(size)[None])
    pitch[0, 0] = 1
    planes = [np.fft.ifft2(np.fft.fft2(random.normal(size=(size, size))) / pitch**p).real for p in (1.1, 1.4, 1.4, 1.4)]
    light, *colours = [plane / plane.std() for plane in planes]
    wide = np.stack([light * 50 + colour * 15 + 120 for colour in colours], -1)
    moved = [
        wide[2 * n : 2 * n + SIDE, 2 * n : 2 * n + SIDE] + random.normal(size=(SIDE, SIDE, 1)) for n in range(count)
    ]
    return np.stack(moved).clip(0, 255).astype(np.uint8)


def size(pixels: np.ndarray, form: str, root: Path, options: OutputConfig) -> int:
    frames = Frames(pixels, Kind.VIDEO if len(pixels) > 1 else Kind.IMAGE, ColorModel.RGB)
    return write_output(frames, OutputTarget(root, f"x.{form}", form, 8, options)).file.bytes


@pytest.mark.parametrize("form", ["png", "jpeg", "webp", "npy", "mp4", "webm", "gif"])
def test_drawn_scene_takes_at_least_the_least_and_a_picture_about_the_typical_size(form: str, tmp_path: Path) -> None:
    count = LENGTHS.get(form, 1)
    request = GenerationRequest(format=form, height=SIDE, width=SIDE, num_frames=count)
    estimate = estimate_files(request, OutputConfig())
    assert estimate.files == 1
    assert estimate.least <= size(scene(count), form, tmp_path, SMALLEST)
    assert 0.5 < size(photograph(count), form, tmp_path, OutputConfig()) / estimate.typical < 2


def test_lossless_and_uncompressed_settings_take_more(tmp_path: Path) -> None:
    stored, exact = OutputConfig(png_compression=0), OutputConfig(quality=100)
    for form, options in (("png", stored), ("webp", exact)):
        estimate = estimate_files(GenerationRequest(format=form, height=SIDE, width=SIDE), options)
        assert 0.8 < size(photograph(1), form, tmp_path, options) / estimate.typical < 1.25
    assert estimate_files(GenerationRequest(format="png", height=10, width=10), stored) == SpaceEstimate(1, 300, 300)


def test_every_output_counts_and_unknown_sizes_count_as_zero() -> None:
    request = GenerationRequest(format="npy", height=10, width=20, num_frames=3, num_outputs=4)
    assert estimate_files(request, OutputConfig()) == SpaceEstimate(4, 4 * (1800 + 128), 4 * (1800 + 128))
    assert estimate_files(GenerationRequest(format="png"), OutputConfig()) == SpaceEstimate(1, 0, 0)
    assert estimate_files(GenerationRequest(format="new", height=10, width=10), OutputConfig()) == SpaceEstimate(
        1, 0, 300
    )
    assert estimate_row(GenerationRequest(prompt="x" * 50)) == SpaceEstimate(0, ROW_BYTES + 50, ROW_BYTES + 50)
    assert SpaceEstimate(1, 2, 3) + SpaceEstimate(10, 20, 30) == SpaceEstimate(11, 22, 33)


def test_least_is_not_more_than_typical_for_every_format() -> None:
    for form in FORMATS:
        estimate = estimate_files(
            GenerationRequest(format=form.name, height=64, width=64, num_frames=5), OutputConfig()
        )
        assert estimate.least <= estimate.typical


def test_free_space_is_what_can_be_written(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "128k", inodes=10) as disk:
        free = free_space(disk / "not" / "yet" / "there")
        assert free == FreeSpace(128 << 10, 9)
        fill(disk)
        assert free_space(disk) == FreeSpace(0, 8)
