import hashlib
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from omni_cli.errors import WriteError
from omni_cli.writers.place import placing, sweep


def put(root: Path, name: str, data: bytes) -> None:
    with placing(root, name) as pending:
        os.write(pending.descriptor, data)
        pending.commit()


def everything(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


def test_committed_file_has_its_bytes_hash_and_size(tmp_path: Path) -> None:
    with placing(tmp_path, "a/b/c.bin") as pending:
        os.write(pending.descriptor, b"abc")
        assert everything(tmp_path) == [str(pending.temporary.relative_to(tmp_path))]
        assert pending.temporary.name.startswith(".c.bin.")
        placed = pending.commit()
    assert everything(tmp_path) == ["a/b/c.bin"]
    assert (tmp_path / "a/b/c.bin").read_bytes() == b"abc"
    assert (placed.sha256, placed.bytes) == (hashlib.sha256(b"abc").hexdigest(), 3)


def test_bytes_written_by_path_are_hashed_too(tmp_path: Path) -> None:
    with placing(tmp_path, "c.bin") as pending:
        pending.temporary.write_bytes(b"by another hand")
        assert pending.commit().sha256 == hashlib.sha256(b"by another hand").hexdigest()


def test_failure_leaves_nothing_and_keeps_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"old")

    def interrupted() -> None:
        with placing(tmp_path, "x.png") as pending:
            os.write(pending.descriptor, b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert everything(tmp_path) == ["x.png"]
    assert (tmp_path / "x.png").read_bytes() == b"old"


def test_symlink_under_the_final_name_is_replaced_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_bytes(b"precious")
    root = tmp_path / "out"
    root.mkdir()
    (root / "x.png").symlink_to(outside)
    put(root, "x.png", b"new")
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
    with pytest.raises(WriteError, match="leads out"), placing(root, name):
        pass
    assert list(elsewhere.iterdir()) == []


def test_an_output_folder_that_is_itself_a_symlink_is_fine(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    put(tmp_path / "out", "a/x.png", b"1")
    assert everything(tmp_path / "disk") == ["a/x.png"]


@pytest.mark.parametrize(
    "name", ["n" * 251 + ".png", "🎈" * 62 + ".png", "-rf.png", "a\nb\x1b[31m.png", "[red]x.png", "x:y=z;.png"]
)
def test_names_of_any_length_and_script_are_kept(tmp_path: Path, name: str) -> None:
    put(tmp_path, name, b"1")
    assert everything(tmp_path) == [name]


def test_mode_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        put(tmp_path, "x.png", b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x.png").stat().st_mode) == 0o640


def test_sweep_takes_the_leavings_of_the_dead_and_nothing_else(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "out"
    dead = root / "a" / f".x.png.{'0' * 16}.omni-tmp"
    dead.parent.mkdir(parents=True)
    for path in (dead, outside / dead.name, root / ".x.png.tmp", root / ".hidden.omni-tmp", root / "x.png"):
        path.write_bytes(b"1")
    (root / "link").symlink_to(outside)
    with placing(root, "live.png") as pending:
        os.write(pending.descriptor, b"1")
        assert sweep(root) == 1
        pending.commit()
    assert everything(root) == [".hidden.omni-tmp", ".x.png.tmp", "live.png", "x.png"]
    assert (outside / dead.name).exists()


def test_sweep_of_a_folder_that_is_not_there_is_nothing(tmp_path: Path) -> None:
    assert sweep(tmp_path / "gone") == 0


def test_killed_writer_leaves_no_final_file_and_is_swept(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib\n"
        "from omni_cli.writers.place import placing\n"
        "with placing(pathlib.Path(sys.argv[1]), 'x.png') as pending:\n"
        "    os.write(pending.descriptor, b'half'); print('in', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in\n"
        assert sweep(tmp_path) == 0
        process.kill()
    (left,) = everything(tmp_path)
    assert left.startswith(".x.png.")
    assert sweep(tmp_path) == 1
    assert everything(tmp_path) == []


def test_many_threads_on_one_name_leave_one_whole_file(tmp_path: Path) -> None:
    threads = [threading.Thread(target=put, args=(tmp_path, "deep/er/x.bin", bytes([i]) * 4096)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert everything(tmp_path) == ["deep/er/x.bin"]
    data = (tmp_path / "deep/er/x.bin").read_bytes()
    assert data == data[:1] * 4096
