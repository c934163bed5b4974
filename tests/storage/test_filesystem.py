"""Locks, syncs and file identity, also on file systems that lack them."""

import errno
import os
from pathlib import Path

import pytest

from omni_cli.storage.filesystem import NOT_SUPPORTED, file_version, is_linked, open_plain_file, sync, try_lock


def test_folder_and_pipe_are_not_plain_files_and_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OSError, match="not a plain file"):
            open_plain_file(path)


def test_symlink_is_followed_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(OSError, match="symbolic link"):
        open_plain_file(tmp_path / "link")
    os.close(open_plain_file(tmp_path / "link", follow_symlinks=True))


def test_second_lock_raises_and_is_free_after_close(tmp_path: Path) -> None:
    path = tmp_path / "a"
    first, second = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert try_lock(first)
    with pytest.raises(BlockingIOError):
        try_lock(second)
    os.close(first)
    assert try_lock(second)
    os.close(second)


@pytest.mark.parametrize("number", sorted(NOT_SUPPORTED))
def test_file_system_without_locks_or_syncs_is_tolerated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", fail)
    monkeypatch.setattr("os.fsync", fail)
    assert not try_lock(0)
    sync(tmp_path)


def test_other_errors_are_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("fcntl.flock", fail)
    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        try_lock(0)
    with pytest.raises(OSError, match="Input/output error"):
        sync(tmp_path)


def test_version_changes_with_the_content_and_not_with_the_name(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    before = file_version(path)
    assert file_version(path) == before
    path.write_bytes(b"other")
    assert file_version(path) != before


def test_unlinked_or_replaced_file_is_not_linked(tmp_path: Path) -> None:
    path = tmp_path / "a"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    assert is_linked(descriptor, path)
    path.unlink()
    assert not is_linked(descriptor, path)
    path.touch()
    assert not is_linked(descriptor, path)
    os.close(descriptor)
