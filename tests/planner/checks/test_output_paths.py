"""Output files against the output folder as it is on disk."""

import os
import stat
from pathlib import Path

import pytest

from omni_cli.planner.checks.output_paths import OutputPathCheck
from tests.planner.conftest import fill_output_folder


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def test_missing_output_folder_takes_any_name(tmp_path):
    assert OutputPathCheck(str(tmp_path / "none" / "yet")).fault("a/b/c.png") == ""


def test_link_out_of_the_folder_is_a_fault(tmp_path, out):
    (tmp_path / "elsewhere").mkdir()
    (out / "way").symlink_to(tmp_path / "elsewhere")
    (out / "to_dev").symlink_to("/dev")
    paths = OutputPathCheck(str(out))
    assert "symbolic link" in paths.fault("way/a.png")
    assert "symbolic link" in paths.fault("way/deep/a.png")
    assert "symbolic link" in paths.fault("to_dev/null")


def test_link_within_the_folder_passes(tmp_path, out):
    (out / "real").mkdir()
    (out / "way").symlink_to("real")
    (tmp_path / "link").symlink_to(out)
    assert OutputPathCheck(str(tmp_path / "link")).fault("way/a.png") == ""


def test_obstacles_are_named(out):
    (out / "a.png").mkdir()
    (out / "file").write_text("mine")
    os.mkfifo(out / "pipe.png")
    (out / "old.png").write_text("older output")
    (out / "link.png").symlink_to("/etc/passwd")
    paths = OutputPathCheck(str(out))
    assert paths.fault("a.png") == "is a folder there already"
    assert paths.fault("file/a.png") == "needs a folder where a file is already"
    assert paths.fault("file/b/a.png") == "needs a folder where a file is already"
    assert paths.fault("pipe.png") == "is a device, pipe or socket there already"
    assert paths.fault("old.png") == ""
    assert paths.fault("link.png") == ""


def test_path_longer_than_path_max_is_a_fault(out):
    assert "4032 bytes" in OutputPathCheck(str(out)).fault("/".join(["x" * 190] * 25))


@pytest.mark.parametrize("filled", [True, False])
def test_plain_names_are_checked_against_what_is_in_the_folder(tmp_path, filled):
    if filled:
        fill_output_folder(tmp_path / "out")
    paths = OutputPathCheck(str(tmp_path / "out"))
    for name in ("dir.mp4", "DIR.mp4", "b.mp4", "B.mp4", "link.mp4", "pipe.mp4", "way", "é.mp4", "É.mp4", "new.mp4"):
        assert bool(paths.fault(name)) == _is_obstacle(tmp_path / "out" / name)


def _is_obstacle(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISLNK(mode))


def test_file_in_place_of_the_output_folder_is_a_fault(tmp_path):
    (tmp_path / "out").write_text("mine")
    assert OutputPathCheck(str(tmp_path / "out")).fault("a.png") == "needs a folder where a file is already"
