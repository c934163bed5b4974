"""A folder of frames: complete or not at all, replaced only where it holds frames, found intact or not by its row."""

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omni_cli.config import OutputConfig
from omni_cli.digest import folder_digest
from omni_cli.errors import WriteError
from omni_cli.writers.finalize import Frames, Sound
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.place import placing_folder, sweep
from omni_cli.writers.write import Written, write_output


class Broken(Frames):
    """Frames of which the third cannot be made."""

    def __iter__(self) -> Iterator[np.ndarray]:
        yield from self.array[:2]
        raise OSError(28, os.strerror(28))


def write(frames: Frames, root: Path, name: str = "a/clip", metadata: Metadata | None = None) -> Written:
    return write_output(
        frames, root / name, name=name, format="frames", fps=8.0, options=OutputConfig(), metadata=metadata
    )


def read(folder: Path) -> np.ndarray:
    return np.stack([np.asarray(Image.open(path)) for path in sorted(folder.glob("*.png"))])


def test_every_frame_is_a_png_and_the_row_is_over_all_of_them(
    clip: Callable[..., Frames], tmp_path: Path, metadata: Callable[..., Metadata]
) -> None:
    frames = clip(33, 21, 12)
    row = write(frames, tmp_path, metadata=metadata()).file
    folder = tmp_path / "a/clip"
    assert sorted(path.name for path in folder.iterdir()) == [f"{n:06d}.png" for n in range(12)]
    np.testing.assert_array_equal(read(folder), frames.array)
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


def test_sound_is_a_file_beside_the_frames(clip: Callable[..., Frames], tmp_path: Path) -> None:
    sound = Sound(np.linspace(-1, 1, 900, dtype=np.float32).reshape(1, 900), 8000)
    written = write(replace(clip(), audio=sound), tmp_path)
    assert (tmp_path / "a/clip/audio.wav").stat().st_size > 3600
    assert (written.file.samples, written.notes) == (900, ())


def test_another_run_replaces_all_of_the_frames_before(clip: Callable[..., Frames], tmp_path: Path) -> None:
    write(clip(64, 64, 9), tmp_path)
    row = write(clip(32, 32, 3), tmp_path).file
    assert read(tmp_path / "a/clip").shape == (3, 32, 32, 3)
    assert folder_digest(tmp_path / "a/clip") == (row.sha256, row.bytes)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["clip"]


def test_a_failure_midway_leaves_what_was_there(clip: Callable[..., Frames], tmp_path: Path) -> None:
    write(clip(), tmp_path)
    before = folder_digest(tmp_path / "a/clip")
    whole = clip(32, 32)
    with pytest.raises(WriteError, match=r"'a/clip' was not written: No space left.*ENOSPC.*make room"):
        write(Broken(whole.array, whole.kind, whole.color), tmp_path)
    assert folder_digest(tmp_path / "a/clip") == before
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["clip"]


def test_a_folder_of_something_else_is_never_replaced(clip: Callable[..., Frames], tmp_path: Path) -> None:
    (tmp_path / "a/clip").mkdir(parents=True)
    (tmp_path / "a/clip/thesis.doc").write_text("years of work")
    with pytest.raises(WriteError, match="a folder of this name holds other things than frames"):
        write(clip(), tmp_path)
    assert (tmp_path / "a/clip/thesis.doc").read_text() == "years of work"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["clip"]


def test_a_link_is_replaced_and_not_followed(clip: Callable[..., Frames], tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/clip").symlink_to(outside)
    write(clip(), tmp_path / "out", "clip")
    assert not (tmp_path / "out/clip").is_symlink()
    assert list(outside.iterdir()) == []


def test_sweep_takes_folders_of_the_dead_and_leaves_those_of_the_living(tmp_path: Path) -> None:
    dead = tmp_path / "deep/.clip.0123456789abcdef.omni-tmp"
    dead.mkdir(parents=True)
    (dead / "000000.png").write_bytes(b"half")
    with placing_folder(tmp_path, "deep/live") as pending:
        (pending.temporary / "000000.png").write_bytes(b"whole")
        assert sweep(tmp_path) == 1
        assert not dead.exists()
        assert (pending.temporary / "000000.png").read_bytes() == b"whole"
    assert list((tmp_path / "deep").iterdir()) == []
