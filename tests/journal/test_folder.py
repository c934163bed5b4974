"""The hold on an output folder."""

import os
from pathlib import Path

import pytest

from omni_cli.errors import OutputFolderError
from omni_cli.journal.folder import LOCK_NAME, held_folder


def test_a_second_hold_is_refused_with_the_pid_of_the_first_and_what_to_do(tmp_path):
    with held_folder(tmp_path), pytest.raises(OutputFolderError) as refused, held_folder(tmp_path):
        pass
    assert f"pid {os.getpid()} " in str(refused.value)
    assert "--output-dir" in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_the_folder_is_free_again_after_the_hold_and_nothing_is_left_in_it(tmp_path):
    for _ in range(2):
        with held_folder(tmp_path / "a" / "b") as folder:
            assert (folder / LOCK_NAME).exists()
        assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_lock_file_left_by_a_dead_process_does_not_hold(tmp_path):
    (tmp_path / LOCK_NAME).write_text('{"pid": 1, "host": "gone", "started": "long ago"}' + " " * 500)
    with held_folder(tmp_path), pytest.raises(OutputFolderError, match=f"pid {os.getpid()} "), held_folder(tmp_path):
        pass


def test_a_hold_is_not_taken_on_a_lock_file_that_was_unlinked_meanwhile(tmp_path, monkeypatch):
    """The run before lets go between our open and our lock: what we locked then has no name, and must not count."""
    real_open, first = os.open, []

    def open_then_unlink(path, *args, **kwargs):
        descriptor = real_open(path, *args, **kwargs)
        if not first:
            first.append(descriptor)
            path.unlink()
        return descriptor

    monkeypatch.setattr("omni_cli.journal.folder.os.open", open_then_unlink)
    with held_folder(tmp_path), pytest.raises(OutputFolderError), held_folder(tmp_path):
        pass
    assert first


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(OutputFolderError, match="is not a folder"), held_folder(tmp_path / "out"):
        pass
    with pytest.raises(OutputFolderError, match="cannot be made"), held_folder(tmp_path / "out" / "below"):
        pass
    assert (tmp_path / "out").read_text() == "mine"


def test_a_dangling_link_is_refused_and_its_target_not_made(tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputFolderError, match=r"symbolic link to '.*nowhere'"), held_folder(tmp_path / "out"):
        pass
    assert not (tmp_path / "nowhere").exists()


def test_a_link_to_a_folder_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to("real")
    with held_folder(tmp_path / "out"):
        assert (tmp_path / "real" / LOCK_NAME).exists()


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_an_impossible_name_is_refused(tmp_path, name):
    with pytest.raises(OutputFolderError, match="cannot be made"), held_folder(str(tmp_path / name)):
        pass


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that nobody can write, root included")
def test_an_unwritable_folder_is_refused():
    with pytest.raises(OutputFolderError, match="cannot be written"), held_folder("/proc/self"):
        pass


def test_a_hostile_lock_file_is_only_vague(tmp_path):
    with held_folder(tmp_path) as folder:
        (folder / LOCK_NAME).write_bytes(b"[bold]\x1b[31m not json")
        with pytest.raises(OutputFolderError, match="in use by another run;"), held_folder(tmp_path):
            pass
