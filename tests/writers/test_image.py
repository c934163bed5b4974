"""Images by Pillow, and folders of frames."""

import hashlib
import io
import os
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin

from omni_cli.config import OutputConfig
from omni_cli.errors import WriteError
from omni_cli.media import UNIT, ColorModel, Kind
from omni_cli.storage.digest import folder_digest
from omni_cli.writers import Frames, Metadata, OutputTarget, Sound, WrittenFile, write_output
from omni_cli.writers.image import durations, encode_thumbnail
from tests.writers.conftest import COLORS


def pixels(path: Path, channels: int) -> np.ndarray:
    with Image.open(path) as image:
        array = np.asarray(image.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels]))
    return array.reshape(*array.shape[:2], channels)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size", [(65, 63), (1, 1), (128, 16)])
@pytest.mark.parametrize(
    ("form", "options"), [("png", {}), ("png", {"png_compression": 0}), ("webp", {"quality": 100})]
)
def test_png_and_webp_at_quality_100_are_exact_with_alpha(
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
def test_jpeg_and_lossy_webp_are_close_and_keep_the_size(
    clip: Callable[..., Frames], written: Callable[..., Path], channels: int
) -> None:
    frames = clip(65, 63, 1, channels)
    for form, levels in (("jpeg", 2.0), ("webp", 4.0)):
        decoded = pixels(written(frames, form), channels).astype(int)
        assert decoded.shape == frames.array[0].shape
        assert np.abs(decoded - frames.array[0]).mean() < levels


def test_lossy_webp_keeps_alpha(clip: Callable[..., Frames], written: Callable[..., Path]) -> None:
    frames = clip(64, 64, 1, 4)
    assert np.array_equal(pixels(written(frames, "webp", quality=80), 4)[..., 3], frames.array[0, ..., 3])


def test_jpeg_keeps_full_chroma_from_quality_90(still: Callable[..., Frames], written: Callable[..., Path]) -> None:
    chroma = []
    for quality in (89, 90):
        with Image.open(written(still(), "jpeg", quality=quality)) as image:
            chroma.append(JpegImagePlugin.get_sampling(image))
    assert chroma == [2, 0]  # 4:2:0, 4:4:4


def test_quality_and_compression_change_the_size_of_the_file(
    clip: Callable[..., Frames], written: Callable[..., Path]
) -> None:
    frames = clip(128, 128, 1)
    for form in ("jpeg", "webp"):
        assert written(frames, form, quality=20).stat().st_size < written(frames, form, quality=95).stat().st_size
    sizes = [written(frames, "png", png_compression=level).stat().st_size for level in (9, 1, 0)]
    assert sizes == sorted(sizes)
    assert sizes[2] > frames.array.nbytes


@pytest.mark.parametrize("channels", [1, 3])
def test_avif_is_close_and_keeps_the_size(
    clip: Callable[..., Frames], written: Callable[..., Path], metadata: Callable[..., Metadata], channels: int
) -> None:
    frames = Frames(clip(65, 63, 1, channels).array, Kind.IMAGE, COLORS[channels])
    with Image.open(written(frames, "avif", metadata=metadata())) as image:
        assert image.size == (65, 63)
        decoded = np.asarray(image.convert("L" if channels == 1 else "RGB")).reshape(frames.array[0].shape)
        assert np.abs(decoded.astype(int) - frames.array[0]).max() <= 6
        assert image.getexif().get_ifd(0x8769)[0x9286].startswith(b"UNICODE")
    assert written(frames, "avif", quality=20).stat().st_size < written(frames, "avif", quality=95).stat().st_size


class BrokenFrames(Frames):
    """Frames of which the third cannot be read."""

    def __iter__(self) -> Iterator[np.ndarray]:
        yield from self.array[:2]
        raise OSError(28, os.strerror(28))


def write_folder(frames: Frames, root: Path, name: str = "a/clip", metadata: Metadata | None = None) -> WrittenFile:
    return write_output(frames, OutputTarget(root, name, "frames", 8.0, OutputConfig(), metadata))


def read_folder(folder: Path) -> np.ndarray:
    return np.stack([np.asarray(Image.open(path)) for path in sorted(folder.glob("*.png"))])


def test_frame_folder_has_a_png_per_frame_and_one_row(
    clip: Callable[..., Frames], tmp_path: Path, metadata: Callable[..., Metadata]
) -> None:
    frames = clip(33, 21, 12)
    row = write_folder(frames, tmp_path, metadata=metadata()).file
    folder = tmp_path / "a/clip"
    assert sorted(path.name for path in folder.iterdir()) == [f"{n:06d}.png" for n in range(12)]
    np.testing.assert_array_equal(read_folder(folder), frames.array)
    lines = b"".join(
        name.encode() + b"\0" + hashlib.sha256((folder / name).read_bytes()).hexdigest().encode() + b"\n"
        for name in sorted(path.name for path in folder.iterdir())
    )
    assert (row.path, row.sha256) == ("a/clip", hashlib.sha256(lines).hexdigest())
    assert row.bytes == sum(path.stat().st_size for path in folder.iterdir())
    assert (row.width, row.height, row.frames, row.fps) == (33, 21, 12, 8.0)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["clip"]
    with Image.open(folder / "000000.png") as first, Image.open(folder / "000001.png") as second:
        assert "omni_gen" in first.info
        assert "omni_gen" not in second.info


def test_frame_folder_has_the_sound_as_a_file(clip: Callable[..., Frames], tmp_path: Path) -> None:
    sound = Sound(np.linspace(-1, 1, 900, dtype=np.float32).reshape(1, 900), 8000)
    written = write_folder(replace(clip(), audio=sound), tmp_path)
    assert (tmp_path / "a/clip/audio.wav").stat().st_size > 3600
    assert (written.file.samples, written.notes) == (900, ())


def test_frame_folder_is_replaced_as_a_whole(clip: Callable[..., Frames], tmp_path: Path) -> None:
    write_folder(clip(64, 64, 9), tmp_path)
    row = write_folder(clip(32, 32, 3), tmp_path).file
    assert read_folder(tmp_path / "a/clip").shape == (3, 32, 32, 3)
    assert folder_digest(tmp_path / "a/clip") == (row.sha256, row.bytes)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["clip"]


def test_failure_midway_keeps_the_old_frame_folder(clip: Callable[..., Frames], tmp_path: Path) -> None:
    write_folder(clip(), tmp_path)
    before = folder_digest(tmp_path / "a/clip")
    whole = clip(32, 32)
    with pytest.raises(WriteError, match=r"'a/clip' was not written: No space left.*ENOSPC.*make room"):
        write_folder(BrokenFrames(whole.array, whole.kind, whole.color), tmp_path)
    assert folder_digest(tmp_path / "a/clip") == before
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["clip"]


def test_folder_with_other_files_is_never_replaced(clip: Callable[..., Frames], tmp_path: Path) -> None:
    (tmp_path / "a/clip").mkdir(parents=True)
    (tmp_path / "a/clip/thesis.doc").write_text("years of work")
    with pytest.raises(WriteError, match="a folder of this name holds other things than frames"):
        write_folder(clip(), tmp_path)
    assert (tmp_path / "a/clip/thesis.doc").read_text() == "years of work"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["clip"]


def test_symlink_in_place_of_a_frame_folder_is_replaced_and_not_followed(
    clip: Callable[..., Frames], tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/clip").symlink_to(outside)
    write_folder(clip(), tmp_path / "out", "clip")
    assert not (tmp_path / "out/clip").is_symlink()
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("form", "options", "tolerance"), [("webp", {"quality": 100}, 0), ("webp", {}, 12), ("avif", {}, 10)]
)
@pytest.mark.parametrize("channels", [3, 4])
def test_animation_shows_every_frame_at_its_time(
    clip: Callable[..., Frames],
    written: Callable[..., Path],
    form: str,
    options: dict[str, object],
    tolerance: int,
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
    for number, frame in enumerate(frames.array):  # WebP merges equal frames
        _, pixels = [entry for entry in shown if entry[0] <= number * 1000 / 24 + 1][-1]
        assert np.abs(pixels - frame).max() <= tolerance
    assert len(shown) == 7 or form == "webp"


def test_rounded_durations_do_not_drift() -> None:
    assert sum(durations(2400, 23.976)) == round(2400 / 23.976 * 1000)
    assert set(durations(2400, 23.976)) == {41, 42}


def test_animation_holds_one_frame_at_a_time(written: Callable[..., Path]) -> None:
    array = np.random.default_rng(0).uniform(0, 1, (24, 64, 64, 3)).astype(np.float32)
    frames = Frames(array, Kind.VIDEO, ColorModel.RGB, UNIT)
    written(frames, "webp")
    tracemalloc.start()
    written(frames, "webp", quality=10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 * 64 * 64 * 3  # bytes of all frames; the encoder's own memory is not Python's


def test_thumbnail_has_its_new_size_and_its_text() -> None:
    data = encode_thumbnail(bytes([200, 10, 10]) * 6, (3, 2), (9, 6), {"Software": "a", "Comment": "b"})
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        assert (image.format, image.size, image.getpixel((4, 3))) == ("PNG", (9, 6), (200, 10, 10))
        assert image.info == {"Software": "a", "Comment": "b"}
