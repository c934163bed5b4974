"""What a manifest says of a request, read without holding, making or mending anything."""

import os
from pathlib import Path

import msgspec
import pytest

from omni_cli.errors import OutputFolderError
from omni_cli.journal import Journal, Standing, read_ledger
from omni_cli.request import GenerationRequest, ModelInfo, OutputFile, PlannedRequest, Result


def planned(name: str, fingerprint: str = "f", file: str | None = None) -> PlannedRequest:
    files = (file or f"{name}.png",)
    return PlannedRequest(request=GenerationRequest(id=name), index=0, seeds=(1,), files=files, fingerprint=fingerprint)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Rows of a, b and c, c failed; the files of a and b are there, b's with other bytes."""
    digest = "2689367b205c16ce32ed4200942b8b8b1e262dfc70d9bc9fbc77c49699a4f1df"  # SHA-256 of "ok"
    with Journal.open(tmp_path) as journal:
        for name in "abc":
            file = OutputFile(path=f"{name}.png", sha256=digest, bytes=2, width=1, height=1, frames=1)
            journal.append(
                Result(
                    id=name,
                    index=0,
                    status="failed" if name == "c" else "done",
                    files=() if name == "c" else (file,),
                    request=GenerationRequest(id=name),
                    fingerprint="f",
                    model=ModelInfo(id="m", revision=None, pipeline="P", dtype="float32"),
                )
            )
    (tmp_path / "a.png").write_bytes(b"ok")
    (tmp_path / "b.png").write_bytes(b"no")
    return tmp_path


def test_every_standing_is_told(folder: Path) -> None:
    with read_ledger(folder) as ledger:
        assert ledger.standing(planned("a")) is Standing.DONE
        assert ledger.standing(planned("a", fingerprint="g")) is Standing.CHANGED
        assert ledger.standing(planned("a", file="other.png")) is Standing.CHANGED
        assert ledger.standing(planned("b")) is Standing.FILE_MISSING
        assert ledger.standing(planned("c")) is Standing.FAILED
        assert ledger.standing(planned("d")) is Standing.NEW


def test_it_is_read_beside_a_run_that_holds_the_folder_and_a_torn_end_stays(folder: Path) -> None:
    manifest = folder / "manifest.jsonl"
    with manifest.open("ab") as file:
        file.write(b'{"schema_version":1,"id":"d"')
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with read_ledger(folder) as ledger:
        assert ledger.standing(planned("a")) is Standing.DONE
        assert ledger.standing(planned("d")) is Standing.NEW
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    with Journal.open(folder), read_ledger(folder) as ledger:
        assert ledger.is_done(planned("a"))


def test_a_folder_that_is_not_there_is_an_empty_ledger_and_stays_away(tmp_path: Path) -> None:
    with read_ledger(tmp_path / "out") as ledger:
        assert ledger.standing(planned("a")) is Standing.NEW
    assert not (tmp_path / "out").exists()


def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "manifest.jsonl")
    with pytest.raises(OutputFolderError, match="is not a plain file"), read_ledger(tmp_path):
        pass


def test_a_fault_of_the_block_is_its_own(folder: Path) -> None:
    with pytest.raises(FileNotFoundError), read_ledger(folder):
        raise FileNotFoundError
    assert msgspec.json.decode((folder / "manifest.jsonl").read_bytes().splitlines()[0])["id"] == "a"
