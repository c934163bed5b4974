"""Which extensions are clips and animations, and the order of frames in a folder."""

from pathlib import Path

import pytest

from omni_cli.storage.file_types import frame_files, is_animation, is_clip


@pytest.mark.parametrize(
    ("name", "clip", "animation"),
    [
        ("a.mp4", True, False),
        ("a.AVI", True, False),
        ("a.gif", True, True),
        ("a.png", False, True),
        ("a", False, False),
    ],
)
def test_extension_decides_what_a_file_is(name: str, clip: bool, animation: bool) -> None:
    assert (is_clip(name), is_animation(name)) == (clip, animation)


def test_folder_is_a_clip(tmp_path: Path) -> None:
    assert is_clip(str(tmp_path))


def test_frames_are_listed_in_natural_order(tmp_path: Path) -> None:
    for name in ("f10.png", "f2.png", "F1.JPG", "notes.txt", "f2b.webp"):
        (tmp_path / name).touch()
    (tmp_path / "f3.png").mkdir()
    assert [path.name for path in frame_files(str(tmp_path))] == ["F1.JPG", "f2.png", "f2b.webp", "f10.png"]
