"""A clip that is written in pieces: the same file as the whole clip gives, or none."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from omni_cli.config import OutputConfig
from omni_cli.errors import StorageError, WriteError
from omni_cli.writers import ClipWriter, Frames, Metadata, OutputTarget, check_disk_accepts, write_output
from tests.disks import fill, small_disk


def writer(root: Path, form: str = "mp4", encoder: str = "pyav", **more: object) -> ClipWriter:
    options = OutputConfig(encoder=encoder)  # type: ignore[arg-type]
    return ClipWriter(OutputTarget(root, f"x.{form}", form, 8.0, options, **more))  # type: ignore[arg-type]


def split(frames: Frames, *lengths: int) -> list[Frames]:
    parts, start = [], 0
    for length in lengths:
        parts.append(replace(frames, array=frames.array[start : start + length]))
        start += length
    return parts


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


@pytest.mark.parametrize("encoder", ["pyav", "ffmpeg"])
@pytest.mark.parametrize("form", ["mp4", "webm"])
def test_pieces_give_the_same_file_as_the_whole_clip(
    clip: Callable[..., Frames], tmp_path: Path, metadata: Callable[..., Metadata], form: str, encoder: str
) -> None:
    frames, options = clip(66, 35, 9), OutputConfig(encoder=encoder)  # type: ignore[arg-type]
    document = metadata()
    whole = write_output(frames, OutputTarget(tmp_path, f"w.{form}", form, 8.0, options, document))
    growing = writer(tmp_path, form, encoder, metadata=document)
    for part in split(frames, 1, 4, 4):
        growing.write(part)
        assert f"x.{form}" not in names(tmp_path)
    written = growing.finish()
    assert (tmp_path / f"x.{form}").read_bytes() == (tmp_path / f"w.{form}").read_bytes()
    assert written.file == structs.replace(whole.file, path=f"x.{form}")
    assert written.encode.seconds > 0
    assert written.encode.end == written.write.start <= written.write.end
    growing.discard()
    assert names(tmp_path) == [f"w.{form}", f"x.{form}"]


@pytest.mark.parametrize("encoder", ["pyav", "ffmpeg"])
def test_discarded_file_leaves_nothing(clip: Callable[..., Frames], tmp_path: Path, encoder: str) -> None:
    growing = writer(tmp_path, encoder=encoder)
    growing.discard()
    growing.write(clip())
    assert [name.endswith(".omni-tmp") for name in names(tmp_path)] == [True]
    growing.discard()
    growing.discard()
    assert names(tmp_path) == []


def test_partial_clip_is_a_complete_file_under_an_unused_name(
    clip: Callable[..., Frames], tmp_path: Path, decode: Callable
) -> None:
    (tmp_path / "x.partial.mp4").write_bytes(b"another file")
    growing = writer(tmp_path)
    growing.write(clip(64, 64, 3))
    written = growing.finish_partial()
    assert (written.file.path, written.file.frames) == ("x.partial-2.mp4", 3)
    assert decode(tmp_path / "x.partial-2.mp4").frames.shape == (3, 64, 64, 3)
    assert (tmp_path / "x.partial.mp4").read_bytes() == b"another file"
    assert names(tmp_path) == ["x.partial-2.mp4", "x.partial.mp4"]


def test_frames_of_another_size_end_the_file(clip: Callable[..., Frames], tmp_path: Path) -> None:
    growing = writer(tmp_path)
    growing.write(clip(64, 64))
    with pytest.raises(WriteError, match=r"'x.mp4' was not written: its frames change their size"):
        growing.write(clip(32, 64))
    assert names(tmp_path) == []


def test_frames_that_the_format_cannot_hold_are_refused_at_once(clip: Callable[..., Frames], tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="no transparency"):
        writer(tmp_path).write(clip(channels=4))
    assert names(tmp_path) == []


@pytest.mark.parametrize("encoder", ["pyav", "ffmpeg"])
def test_disk_that_becomes_full_between_two_pieces_is_a_storage_error(
    clip: Callable[..., Frames], tmp_path: Path, encoder: str
) -> None:
    with small_disk(tmp_path / "disk") as root:
        growing = writer(root, encoder=encoder)
        growing.write(clip(64, 64, 1))
        ballast = fill(root)
        with pytest.raises(StorageError, match=r"'x\.mp4' was not written: No space left"):  # noqa: PT012
            for _ in range(2000):
                growing.write(clip(64, 64, 20))
            growing.finish()
        growing.discard()
        assert names(root) == [ballast.name]
        with pytest.raises(StorageError, match="No space left"):
            check_disk_accepts(root, "x.mp4", 100_000)
        ballast.unlink()
        check_disk_accepts(root, "x.mp4", 100_000)
        assert names(root) == []
