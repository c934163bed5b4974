"""Names meet the folder as it is on disk."""

import os

import pytest

from omni_cli.planner.places import Places


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def test_a_folder_that_is_not_there_yet_takes_any_name(tmp_path):
    assert Places(str(tmp_path / "none" / "yet")).fault("a/b/c.png") == ""


def test_a_link_inside_may_not_lead_out(tmp_path, out):
    (tmp_path / "elsewhere").mkdir()
    (out / "way").symlink_to(tmp_path / "elsewhere")
    (out / "to_dev").symlink_to("/dev")
    places = Places(str(out))
    assert "symbolic link" in places.fault("way/a.png")
    assert "symbolic link" in places.fault("way/deep/a.png")
    assert "symbolic link" in places.fault("to_dev/null")


def test_a_link_that_stays_inside_and_a_link_to_the_folder_itself_are_fine(tmp_path, out):
    (out / "real").mkdir()
    (out / "way").symlink_to("real")
    (tmp_path / "link").symlink_to(out)
    assert Places(str(tmp_path / "link")).fault("way/a.png") == ""


def test_what_is_in_the_way_is_named(out):
    (out / "a.png").mkdir()
    (out / "file").write_text("mine")
    os.mkfifo(out / "pipe.png")
    (out / "old.png").write_text("older output")
    (out / "link.png").symlink_to("/etc/passwd")
    places = Places(str(out))
    assert places.fault("a.png") == "is a folder there already"
    assert places.fault("file/a.png") == "needs a folder where a file is already"
    assert places.fault("file/b/a.png") == "needs a folder where a file is already"
    assert places.fault("pipe.png") == "is a device, pipe or socket there already"
    assert places.fault("old.png") == ""
    assert places.fault("link.png") == ""


def test_a_path_that_no_system_call_takes_is_refused(out):
    assert "4032 bytes" in Places(str(out)).fault("/".join(["x" * 190] * 25))
