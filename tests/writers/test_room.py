"""What files take on disk, guessed before they are made: never less than a drawn scene needs, about what a picture does."""

from pathlib import Path

import numpy as np
import pytest

from omni_cli.config import OutputConfig
from omni_cli.media import ColorModel, Kind
from omni_cli.request import GenerationRequest
from omni_cli.writers.finalize import Frames
from omni_cli.writers.formats import FORMATS
from omni_cli.writers.room import ROW_BYTES, Free, Room, free_in, room_for, row_room
from omni_cli.writers.write import write_output
from tests.disks import fill, small_disk

SIDE = 256
LENGTHS = {"mp4": 33, "webm": 33, "gif": 4}
SMALLEST = OutputConfig(png_compression=9, quality=1, crf=51)


def scene(count: int) -> np.ndarray:
    """A disc that moves over one colour: no model draws less."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    pixels = np.full((count, SIDE, SIDE, 3), (30, 60, 200), np.uint8)
    for index in range(count):
        pixels[index][np.hypot(rows - SIDE / 2, columns - SIDE / 3 - 2 * index) < SIDE / 5] = (220, 30, 30)
    return pixels


def photograph(count: int) -> np.ndarray:
    """Noise with the spectrum of a photograph, moving."""
    random, size = np.random.default_rng(0), SIDE + 2 * count
    pitch = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.fftfreq(size)[None])
    pitch[0, 0] = 1
    made = [np.fft.ifft2(np.fft.fft2(random.normal(size=(size, size))) / pitch**p).real for p in (1.1, 1.4, 1.4, 1.4)]
    light, *colours = [plane / plane.std() for plane in made]
    wide = np.stack([light * 50 + colour * 15 + 120 for colour in colours], -1)
    moved = [
        wide[2 * n : 2 * n + SIDE, 2 * n : 2 * n + SIDE] + random.normal(size=(SIDE, SIDE, 1)) for n in range(count)
    ]
    return np.stack(moved).clip(0, 255).astype(np.uint8)


def size(pixels: np.ndarray, form: str, root: Path, options: OutputConfig) -> int:
    frames = Frames(pixels, Kind.VIDEO if len(pixels) > 1 else Kind.IMAGE, ColorModel.RGB)
    return write_output(frames, root / f"x.{form}", name=f"x.{form}", format=form, fps=8, options=options).file.bytes


@pytest.mark.parametrize("form", ["png", "jpeg", "webp", "npy", "mp4", "webm", "gif"])
def test_a_drawn_scene_takes_at_least_the_least_and_a_picture_about_what_is_typical(form: str, tmp_path: Path) -> None:
    count = LENGTHS.get(form, 1)
    request = GenerationRequest(format=form, height=SIDE, width=SIDE, num_frames=count)
    room = room_for(request, OutputConfig())
    assert room.files == 1
    assert room.least <= size(scene(count), form, tmp_path, SMALLEST)
    assert 0.5 < size(photograph(count), form, tmp_path, OutputConfig()) / room.typical < 2


def test_settings_that_keep_every_pixel_take_more(tmp_path: Path) -> None:
    stored, exact = OutputConfig(png_compression=0), OutputConfig(quality=100)
    for form, options in (("png", stored), ("webp", exact)):
        room = room_for(GenerationRequest(format=form, height=SIDE, width=SIDE), options)
        assert 0.8 < size(photograph(1), form, tmp_path, options) / room.typical < 1.25
    assert room_for(GenerationRequest(format="png", height=10, width=10), stored) == Room(1, 300, 300)


def test_every_output_counts_and_what_is_not_known_does_not() -> None:
    request = GenerationRequest(format="npy", height=10, width=20, num_frames=3, num_outputs=4)
    assert room_for(request, OutputConfig()) == Room(4, 4 * (1800 + 128), 4 * (1800 + 128))
    assert room_for(GenerationRequest(format="png"), OutputConfig()) == Room(1, 0, 0)
    assert room_for(GenerationRequest(format="new", height=10, width=10), OutputConfig()) == Room(1, 0, 300)
    assert row_room(GenerationRequest(prompt="x" * 50)) == Room(0, ROW_BYTES + 50, ROW_BYTES + 50)
    assert Room(1, 2, 3) + Room(10, 20, 30) == Room(11, 22, 33)


def test_every_format_can_be_asked_for() -> None:
    for form in FORMATS:
        room = room_for(GenerationRequest(format=form.name, height=64, width=64, num_frames=5), OutputConfig())
        assert room.least <= room.typical


def test_what_is_free_is_what_can_be_written(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "128k", inodes=10) as disk:
        free = free_in(disk / "not" / "yet" / "there")
        assert free == Free(128 << 10, 9)
        fill(disk)
        assert free_in(disk) == Free(0, 8)
