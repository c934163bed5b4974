"""Differences between two outputs."""

from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from omni_cli.errors import OutputFolderError
from omni_cli.writers.readback import Difference, difference, folders_differ, read_frames

Levels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


@pytest.fixture
def picture() -> Levels:
    return np.random.default_rng(0).integers(0, 256, (16, 24, 3), dtype=np.uint8)


def save(path: Path, levels: Levels) -> Path:
    if path.suffix == ".npy":
        np.save(path, levels)
    else:
        Image.fromarray(levels).save(path)
    return path


def test_same_pixels_in_different_formats_do_not_differ(picture: Levels, tmp_path: Path) -> None:
    png, npy = save(tmp_path / "a.png", picture), save(tmp_path / "a.npy", picture)
    assert difference(png, npy) == Difference(0, 1)


@pytest.mark.parametrize(("left", "right"), [(0, 255), (255, 0), (10, 11)])
def test_difference_is_in_levels_and_does_not_wrap(picture: Levels, tmp_path: Path, left: int, right: int) -> None:
    one, other = picture.copy(), picture.copy()
    one[3, 4, 1], other[3, 4, 1] = left, right
    assert difference(save(tmp_path / "a.png", one), save(tmp_path / "b.png", other)).levels == abs(left - right)


def test_other_size_or_number_of_frames_is_the_largest_difference(picture: Levels, tmp_path: Path) -> None:
    whole = save(tmp_path / "a.png", picture)
    assert difference(whole, save(tmp_path / "b.png", picture[:8])).levels == 256
    clip, longer = np.stack([picture] * 2), np.stack([picture] * 3)
    assert difference(save(tmp_path / "a.npy", clip), save(tmp_path / "b.npy", longer)).levels == 256


def test_videos_are_compared_frame_by_frame(picture: Levels, tmp_path: Path) -> None:
    def video(name: str, frames: list[Levels]) -> Path:
        with av.open(str(tmp_path / name), "w") as container:
            stream = container.add_stream("libx264", rate=8)
            stream.width, stream.height, stream.pix_fmt = 24, 16, "yuv420p"
            for frame in frames:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
            container.mux(stream.encode(None))
        return tmp_path / name

    black, grey = np.zeros_like(picture), np.full_like(picture, 128)
    one = video("a.mp4", [black, black, black])
    assert difference(one, video("b.mp4", [black, black, black])) == Difference(0, 3)
    assert difference(one, video("c.mp4", [black, black, grey])).levels > 100


def test_gif_yields_all_its_frames(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "blue", "white")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert [tuple(frame[0, 0]) for frame in read_frames(tmp_path / "a.gif")] == [
        (255, 0, 0),
        (0, 0, 255),
        (255, 255, 255),
    ]


def test_missing_file_is_named(picture: Levels, tmp_path: Path) -> None:
    save(tmp_path / "a.png", picture)
    (tmp_path / "other").mkdir()
    with pytest.raises(OutputFolderError, match=r"other/a\.png"):
        folders_differ(tmp_path, tmp_path / "other", ["a.png"])


def test_16_bit_pictures_frame_folders_arrays_and_sound_are_compared(tmp_path: Path) -> None:
    def sound(name: str, level: float) -> Path:
        with av.open(str(tmp_path / name), "w") as container:
            stream = container.add_stream("pcm_f32le", rate=8000)
            wave = np.full((1, 800), level, np.float32)
            frame = av.AudioFrame.from_ndarray(wave, format="flt", layout="mono")
            frame.rate = 8000
            container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        return tmp_path / name

    def frames(name: str, levels: list[int]) -> Path:
        (tmp_path / name).mkdir()
        for number, level in enumerate(levels):
            Image.new("RGB", (4, 4), (level,) * 3).save(tmp_path / name / f"{number:06d}.png")
        return tmp_path / name

    def deep(name: str, level: int) -> Path:
        with av.open(str(tmp_path / name), "w", format="image2") as container:
            stream = container.add_stream("png", rate=1)
            stream.width, stream.height, stream.pix_fmt = 4, 4, "rgb48be"
            picture = np.full((4, 4, 3), level, np.uint16)
            container.mux(
                stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb48le").reformat(format="rgb48be"))
            )
            container.mux(stream.encode(None))
        return tmp_path / name

    def arrays(name: str, level: float) -> Path:
        np.savez(tmp_path / name, latents=np.full((2, 3), level, np.float32))
        return tmp_path / name

    assert difference(sound("a.wav", 0.5), sound("b.wav", 0.5)).levels == 0
    assert difference(sound("a.wav", 0.5), sound("c.wav", 0.5001)).levels == 1
    assert difference(sound("a.wav", 0.5), sound("d.wav", -0.5)).levels > 80
    assert difference(frames("f", [1, 2]), frames("g", [1, 2])) == Difference(0, 2)
    assert difference(tmp_path / "f", frames("h", [1, 9])).levels == 7
    assert difference(tmp_path / "f", frames("i", [1])).levels == 256
    assert difference(deep("a.png", 5000), deep("b.png", 5000)).levels == 0
    assert difference(deep("a.png", 5000), deep("c.png", 5001)).levels == 1  # equal in 8 bits
    assert difference(arrays("a.npz", 0.25), arrays("b.npz", 0.25)).levels == 0
    assert difference(arrays("a.npz", 0.25), arrays("c.npz", 0.2500001)).levels == 1
