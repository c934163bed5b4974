"""Thumbnails: one per content, of whatever can be shown, and never a reason to fail."""

import wave
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from PIL import Image

from omni_cli.report.thumbnails import MAX_SIDE, ThumbnailJob, make_thumbnails
from omni_cli.request import Result
from tests.report.conftest import OutputFolder


def jobs(folder: OutputFolder, *rows: Result) -> list[ThumbnailJob | None]:
    return [ThumbnailJob(folder.root / row.files[0].path, row.files[0]) for row in rows]


def make(folder: OutputFolder, *rows: Result, counts: list[tuple[int, int]] | None = None) -> list[str]:
    (folder.root / "thumbs").mkdir(exist_ok=True)
    seen: list[tuple[int, int]] = [] if counts is None else counts
    return make_thumbnails(folder.root / "thumbs", jobs(folder, *rows), lambda done, total: seen.append((done, total)))


@pytest.mark.parametrize(
    ("name", "frames"),
    [
        *[("a.png", 1), ("a.jpg", 1), ("a.npy", 1), ("a.gif", 3), ("a.webp", 3), ("a.webm", 3)],
        *[("frames", 3), ("b.npy", 3), ("a.npz", 3)],
    ],
)
def test_a_thumbnail_is_the_picture_or_the_first_frame(folder: OutputFolder, name: str, frames: int) -> None:
    (thumb,) = make(folder, folder.done("a", name, frames=frames))
    with Image.open(folder.root / "thumbs" / thumb) as made, Image.open(_reference(folder)) as reference:
        assert made.size == reference.size == (32, 24)
        one, other = (np.asarray(picture.resize((4, 3)), np.int16) for picture in (made, reference))
        assert np.abs(one - other).max() < 30


def _reference(folder: OutputFolder) -> Path:
    folder.done("reference")
    return folder.root / "reference.png"


def test_large_pictures_are_scaled_down_and_transparency_is_kept(folder: OutputFolder) -> None:
    row = folder.done("a")
    Image.new("RGBA", (1000, 500), (255, 0, 0, 0)).save(folder.root / "a.png")
    (thumb,) = make(folder, row)
    with Image.open(folder.root / "thumbs" / thumb) as made:
        assert made.size == (MAX_SIDE, MAX_SIDE // 2)
        assert made.getpixel((0, 0))[3] == 0  # type: ignore[index]


def test_equal_content_has_one_thumbnail_and_is_made_once(folder: OutputFolder) -> None:
    first, second = folder.done("a", seed=1), folder.done("b", seed=1)
    counts: list[tuple[int, int]] = []
    names = make(folder, first, second, counts=counts)
    assert names[0] == names[1] != ""
    assert counts == [(1, 1)]
    made_at = (folder.root / "thumbs" / names[0]).stat().st_mtime_ns
    assert make(folder, first, folder.done("c", seed=2), counts=counts)[0] == names[0]
    assert counts[1:] == [(1, 1)]
    assert (folder.root / "thumbs" / names[0]).stat().st_mtime_ns == made_at


def test_files_without_a_picture_and_broken_ones_have_no_thumbnail(folder: OutputFolder) -> None:
    rows = [folder.done("sound", "a.wav"), folder.done("broken"), folder.done("gone"), folder.done("clip", "a.webm")]
    (folder.root / "broken.png").write_bytes((folder.root / "broken.png").read_bytes()[:60])
    (folder.root / "gone.png").unlink()
    (folder.root / "a.webm").write_bytes(b"no video")
    rows.append(folder.done("good", seed=9))
    assert [bool(name) for name in make(folder, *rows)] == [False, False, False, False, True]
    assert len(list((folder.root / "thumbs").iterdir())) == 1


def test_a_hash_of_a_row_never_names_a_file(folder: OutputFolder) -> None:
    row = folder.done("a")
    hostile = structs.replace(row, files=(structs.replace(row.files[0], sha256="../../../x"),))
    (thumb,) = make(folder, hostile)
    assert (folder.root / "thumbs" / thumb).is_file()
    assert "/" not in thumb


def test_grey_of_16_bits_is_not_clipped(folder: OutputFolder) -> None:
    row = folder.done("a")
    Image.fromarray(np.full((24, 32), 128 * 257, np.uint16)).save(folder.root / "a.png")
    (thumb,) = make(folder, row)
    with Image.open(folder.root / "thumbs" / thumb) as made:
        assert made.getpixel((16, 12)) == (128, 128, 128)


def test_sound_is_shown_as_its_waveform(folder: OutputFolder) -> None:
    row = folder.done("a", "a.wav")
    loud, quiet = np.full(24_000, 0.5), np.zeros(24_000)
    with wave.open(str(folder.root / "a.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(48_000)
        file.writeframes((np.concatenate([loud, quiet]) * 32767).astype("<i2").tobytes())
    (thumb,) = make(folder, row)
    with Image.open(folder.root / "thumbs" / thumb) as made:
        heights = (np.asarray(made.convert("RGBA"))[..., 3] > 128).sum(axis=0)
    assert 0.4 < np.median(heights[:150]) / made.height < 0.55
    assert heights[170:].max() <= 2
