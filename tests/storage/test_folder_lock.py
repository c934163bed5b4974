"""The lock on an output folder."""

import errno
import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from omni_cli.errors import OutputFolderError
from omni_cli.storage.folder_lock import LOCK_NAME, lock_folder, running_owner


def test_second_lock_is_refused_with_the_pid_of_the_owner_and_advice(tmp_path):
    with lock_folder(tmp_path), pytest.raises(OutputFolderError) as refused, lock_folder(tmp_path):
        pass
    assert f"pid {os.getpid()} " in str(refused.value)
    assert "--output-dir" in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_released_folder_can_be_locked_again_and_keeps_no_lock_file(tmp_path):
    for _ in range(2):
        with lock_folder(tmp_path / "a" / "b") as folder:
            assert (folder / LOCK_NAME).exists()
        assert list((tmp_path / "a" / "b").iterdir()) == []


def test_lock_file_of_a_dead_process_does_not_lock(tmp_path):
    (tmp_path / LOCK_NAME).write_text('{"pid": 1, "host": "gone", "started": "long ago"}' + " " * 500)
    with lock_folder(tmp_path), pytest.raises(OutputFolderError, match=f"pid {os.getpid()} "), lock_folder(tmp_path):
        pass


def test_the_run_that_holds_a_folder_is_known_without_a_lock(tmp_path: Path) -> None:
    assert running_owner(tmp_path) is None
    with lock_folder(tmp_path):
        owner = running_owner(tmp_path)
        assert owner is not None
        assert (owner.pid, owner.host) == (os.getpid(), socket.gethostname())
        assert abs(owner.started.timestamp() - time.time()) < 60
    assert running_owner(tmp_path) is None


@pytest.mark.parametrize(
    ("content", "is_running"),
    [
        ('{"pid": 1, "host": "another", "started": "2026-01-01T00:00:00+00:00"}', True),
        ('{"pid": %d, "host": "%s", "started": "2026-01-01T00:00:00+00:00"}', False),
        ('{"pid": 1, "host": "another", "started": "long ago"}', False),
        ("", False),
    ],
    ids=["another host", "a dead process", "no time", "empty"],
)
def test_a_lock_file_that_was_left_behind_counts_only_on_another_host(
    content: str, is_running: bool, tmp_path: Path
) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    (tmp_path / LOCK_NAME).write_text(content % (ended.pid, socket.gethostname()) if "%" in content else content)
    assert (running_owner(tmp_path) is not None) == is_running


def test_lock_on_a_file_that_was_unlinked_meanwhile_does_not_count(tmp_path, monkeypatch):
    """The run before unlinks the file between our `open` and our lock: that lock must not count."""
    real_open, first = os.open, []

    def open_then_unlink(path, *args, **kwargs):
        descriptor = real_open(path, *args, **kwargs)
        if not first:
            first.append(descriptor)
            path.unlink()
        return descriptor

    monkeypatch.setattr("omni_cli.storage.folder_lock.os.open", open_then_unlink)
    with lock_folder(tmp_path), pytest.raises(OutputFolderError), lock_folder(tmp_path):
        pass
    assert first


def test_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(OutputFolderError, match="is not a folder"), lock_folder(tmp_path / "out"):
        pass
    with pytest.raises(OutputFolderError, match="cannot be made"), lock_folder(tmp_path / "out" / "below"):
        pass
    assert (tmp_path / "out").read_text() == "mine"


def test_dangling_link_is_refused_and_its_target_not_created(tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputFolderError, match=r"symbolic link to '.*nowhere'"), lock_folder(tmp_path / "out"):
        pass
    assert not (tmp_path / "nowhere").exists()


def test_link_to_a_folder_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to("real")
    with lock_folder(tmp_path / "out"):
        assert (tmp_path / "real" / LOCK_NAME).exists()


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_impossible_name_is_refused(tmp_path, name):
    with pytest.raises(OutputFolderError, match="cannot be made"), lock_folder(str(tmp_path / name)):
        pass


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that nobody can write, root included")
def test_an_unwritable_folder_is_refused():
    with pytest.raises(OutputFolderError, match="cannot be written"), lock_folder("/proc/self"):
        pass


def test_unreadable_lock_file_names_no_owner(tmp_path):
    with lock_folder(tmp_path) as folder:
        (folder / LOCK_NAME).write_bytes(b"[bold]\x1b[31m not json")
        with pytest.raises(OutputFolderError, match="in use by another run;"), lock_folder(tmp_path):
            pass


def test_a_folder_that_cannot_do_what_outputs_need_is_refused_and_unlocked(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(OutputFolderError, match=r"cannot rename files, .*\(ENOSYS\)"), lock_folder(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("host", "pid", "refused"),
    [("here", "living", True), ("here", "dead", False), ("here", "own", False), ("elsewhere", "living", False)],
)
def test_without_locks_only_a_living_owner_on_this_machine_is_in_the_way(tmp_path, monkeypatch, host, pid, refused):
    def fail(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", fail)
    pids = {"living": os.getppid(), "dead": 1 << 23, "own": os.getpid()}
    hosts = {"here": socket.gethostname(), "elsewhere": "elsewhere"}
    owner = {"pid": pids[pid], "host": hosts[host], "started": "2026-01-02T03:04:05+00:00"}
    (tmp_path / LOCK_NAME).write_text(json.dumps(owner))
    if not refused:
        with lock_folder(tmp_path):
            assert f'"pid":{os.getpid()},' in (tmp_path / LOCK_NAME).read_text()
        return
    with pytest.raises(OutputFolderError, match=f"pid {os.getppid()} .*remove '.*{LOCK_NAME}'"), lock_folder(tmp_path):
        pass
    assert (tmp_path / LOCK_NAME).exists()
