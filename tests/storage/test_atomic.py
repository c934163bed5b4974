"""Files and folders that appear complete or not at all."""

import hashlib
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from omni_cli.errors import WriteError
from omni_cli.storage.atomic import pending_file, pending_folder, replace_file, sweep


def commit(root: Path, name: str, data: bytes) -> None:
    with pending_file(root, name) as pending:
        os.write(pending.descriptor, data)
        pending.commit()


def all_files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


def test_committed_file_has_its_bytes_hash_and_size(tmp_path: Path) -> None:
    with pending_file(tmp_path, "a/b/c.bin") as pending:
        os.write(pending.descriptor, b"abc")
        assert all_files(tmp_path) == [str(pending.temporary.relative_to(tmp_path))]
        assert pending.temporary.name.startswith(".c.bin.")
        digest = pending.commit()
    assert all_files(tmp_path) == ["a/b/c.bin"]
    assert (tmp_path / "a/b/c.bin").read_bytes() == b"abc"
    assert digest == (hashlib.sha256(b"abc").hexdigest(), 3)


def test_bytes_written_through_the_path_are_hashed_too(tmp_path: Path) -> None:
    with pending_file(tmp_path, "c.bin") as pending:
        pending.temporary.write_bytes(b"through the path")
        assert pending.commit().sha256 == hashlib.sha256(b"through the path").hexdigest()


def test_failure_leaves_no_file_and_keeps_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"old")

    def interrupted() -> None:
        with pending_file(tmp_path, "x.png") as pending:
            os.write(pending.descriptor, b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert all_files(tmp_path) == ["x.png"]
    assert (tmp_path / "x.png").read_bytes() == b"old"


def test_symlink_under_the_final_name_is_replaced_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_bytes(b"precious")
    root = tmp_path / "out"
    root.mkdir()
    (root / "x.png").symlink_to(outside)
    commit(root, "x.png", b"new")
    assert outside.read_bytes() == b"precious"
    assert not (root / "x.png").is_symlink()
    assert (root / "x.png").read_bytes() == b"new"


@pytest.mark.parametrize(
    "name", ["../x.png", "a/../../x.png", "/etc/x.png", "..", "", "link/x.png", "link/new/x.png", "a\0b"]
)
def test_names_that_lead_out_of_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    root, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / "link").symlink_to(elsewhere)
    with pytest.raises(WriteError, match="leads out"), pending_file(root, name):
        pass
    assert list(elsewhere.iterdir()) == []


def test_output_folder_may_be_a_symlink(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    commit(tmp_path / "out", "a/x.png", b"1")
    assert all_files(tmp_path / "disk") == ["a/x.png"]


@pytest.mark.parametrize(
    "name", ["n" * 251 + ".png", "🎈" * 62 + ".png", "-rf.png", "a\nb\x1b[31m.png", "[red]x.png", "x:y=z;.png"]
)
def test_names_of_any_length_and_script_are_kept(tmp_path: Path, name: str) -> None:
    commit(tmp_path, name, b"1")
    assert all_files(tmp_path) == [name]


def test_mode_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        commit(tmp_path, "x.png", b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x.png").stat().st_mode) == 0o640


def test_sweep_removes_hidden_files_of_dead_writers_only(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "out"
    dead = root / "a" / f".x.png.{'0' * 16}.omni-tmp"
    dead.parent.mkdir(parents=True)
    for path in (dead, outside / dead.name, root / ".x.png.tmp", root / ".hidden.omni-tmp", root / "x.png"):
        path.write_bytes(b"1")
    (root / "link").symlink_to(outside)
    with pending_file(root, "live.png") as pending:
        os.write(pending.descriptor, b"1")
        assert sweep(root) == 1
        pending.commit()
    assert all_files(root) == [".hidden.omni-tmp", ".x.png.tmp", "live.png", "x.png"]
    assert (outside / dead.name).exists()


def test_sweep_of_a_missing_folder_removes_nothing(tmp_path: Path) -> None:
    assert sweep(tmp_path / "gone") == 0


def test_killed_writer_leaves_no_final_file_and_its_hidden_file_is_swept(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib\n"
        "from omni_cli.storage.atomic import pending_file\n"
        "with pending_file(pathlib.Path(sys.argv[1]), 'x.png') as pending:\n"
        "    os.write(pending.descriptor, b'half'); print('in', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in\n"
        assert sweep(tmp_path) == 0
        process.kill()
    (left,) = all_files(tmp_path)
    assert left.startswith(".x.png.")
    assert sweep(tmp_path) == 1
    assert all_files(tmp_path) == []


def test_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for data in (b"one", b"two"):
        with replace_file(path) as file:
            file.write(data)
        assert path.read_bytes() == data
        path.chmod(0o604)
    with replace_file(path) as file:
        file.write(b"three")
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert all_files(tmp_path) == ["x.json"]


def test_replace_that_fails_midway_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with replace_file(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (all_files(tmp_path), path.read_bytes()) == (["x.json"], b"old")


def test_many_threads_writing_one_name_leave_one_whole_file(tmp_path: Path) -> None:
    threads = [threading.Thread(target=commit, args=(tmp_path, "deep/er/x.bin", bytes([i]) * 4096)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all_files(tmp_path) == ["deep/er/x.bin"]
    data = (tmp_path / "deep/er/x.bin").read_bytes()
    assert data == data[:1] * 4096


def test_sweep_removes_hidden_folders_of_dead_writers_only(tmp_path: Path) -> None:
    dead = tmp_path / "deep/.clip.0123456789abcdef.omni-tmp"
    dead.mkdir(parents=True)
    (dead / "000000.png").write_bytes(b"half")
    with pending_folder(tmp_path, "deep/live") as pending:
        (pending.temporary / "000000.png").write_bytes(b"whole")
        assert sweep(tmp_path) == 1
        assert not dead.exists()
        assert (pending.temporary / "000000.png").read_bytes() == b"whole"
    assert list((tmp_path / "deep").iterdir()) == []
