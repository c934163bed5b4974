"""The status of requests, read without locking, creating or repairing anything."""

import os
from pathlib import Path

import msgspec
import pytest

from omni_cli.errors import OutputFolderError
from omni_cli.journal import Journal, RequestStatus, read_manifest
from omni_cli.request import OutputFile
from tests.factories import planned, result


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with rows of a, b and c, of which c failed, and the files of a and b, b's with other bytes."""
    digest = "2689367b205c16ce32ed4200942b8b8b1e262dfc70d9bc9fbc77c49699a4f1df"  # SHA-256 of "ok"
    with Journal.open(tmp_path) as journal:
        for name in "abc":
            file = OutputFile(path=f"{name}.png", sha256=digest, bytes=2, width=1, height=1, frames=1)
            journal.append(result(name, "failed") if name == "c" else result(name, files=(file,)))
    (tmp_path / "a.png").write_bytes(b"ok")
    (tmp_path / "b.png").write_bytes(b"no")
    return tmp_path


def test_every_status(folder: Path) -> None:
    with read_manifest(folder) as manifest:
        assert manifest.compare(planned("a")).status is RequestStatus.DONE
        assert manifest.compare(planned("a", fingerprint="g")).status is RequestStatus.CHANGED
        assert manifest.compare(planned("a", "other.png")).status is RequestStatus.DONE
        assert manifest.compare(planned("a", "a.png", "more.png")).status is RequestStatus.MORE_OUTPUTS
        assert manifest.compare(planned("b"), hashed=False).status is RequestStatus.DONE
        assert manifest.compare(planned("b")).status is RequestStatus.FILE_MISSING
        assert manifest.compare(planned("c")).status is RequestStatus.FAILED
        assert manifest.compare(planned("d")).status is RequestStatus.NEW


def test_manifest_is_read_beside_the_run_that_has_locked_the_folder_and_is_left_unchanged(folder: Path) -> None:
    with (folder / "manifest.jsonl").open("ab") as file:
        file.write(b'{"schema_version":1,"id":"d"')
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with read_manifest(folder) as manifest:
        assert manifest.compare(planned("a")).status is RequestStatus.DONE
        assert manifest.compare(planned("d")).status is RequestStatus.NEW
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    with Journal.open(folder), read_manifest(folder) as manifest:
        assert manifest.compare(planned("a")).status is RequestStatus.DONE


def test_missing_folder_has_no_rows_and_is_not_created(tmp_path: Path) -> None:
    with read_manifest(tmp_path / "out") as manifest:
        assert manifest.compare(planned("a")).status is RequestStatus.NEW
    assert not (tmp_path / "out").exists()


def test_pipe_in_place_of_the_manifest_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "manifest.jsonl")
    with pytest.raises(OutputFolderError, match="is not a plain file"), read_manifest(tmp_path):
        pass


def test_error_in_the_block_is_not_translated(folder: Path) -> None:
    with pytest.raises(FileNotFoundError), read_manifest(folder):
        raise FileNotFoundError
    assert msgspec.json.decode((folder / "manifest.jsonl").read_bytes().splitlines()[0])["id"] == "a"


def test_only_missing_outputs_remain_under_their_recorded_names(tmp_path: Path) -> None:
    digest = "2689367b205c16ce32ed4200942b8b8b1e262dfc70d9bc9fbc77c49699a4f1df"
    files = tuple(
        OutputFile(path=f"old-{n}.png", sha256=digest, bytes=2, width=1, height=1, frames=1) for n in range(3)
    )
    with Journal.open(tmp_path) as journal:
        journal.append(result("a", files=files, seeds=(5, 6, 7)))
        for n in (0, 2):
            (tmp_path / f"old-{n}.png").write_bytes(b"ok")
        standing = journal.compare(planned("a", *(f"a-{n}.png" for n in range(5))))
    remaining = standing.remaining
    assert standing.status is RequestStatus.FILE_MISSING
    assert remaining is not None
    assert (remaining.numbers, remaining.seeds) == ((1, 3, 4), (6, 8, 9))
    assert remaining.files == ("old-1.png", "a-3.png", "a-4.png")
    assert [(output.number, output.seed) for output in remaining.finished] == [(0, 5), (2, 7)]


def test_file_belongs_to_the_last_row_that_names_it_whatever_its_case(tmp_path: Path) -> None:
    file = OutputFile(path="Stra\u00dfe/\u00c9.png", sha256="", bytes=2, width=1, height=1, frames=1)
    with Journal.open(tmp_path) as journal:
        journal.append(result("a", files=(file,)))
        owner = journal.row_with_file("STRASSE/e\u0301.PNG")
        assert owner is not None
        assert owner.id == "a"
        journal.append(result("a", "failed"))
        assert journal.row_with_file(file.path) is None
