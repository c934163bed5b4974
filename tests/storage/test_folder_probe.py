"""What an output folder is asked before a model is loaded."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from omni_cli.errors import OutputFolderError
from omni_cli.storage.atomic import sweep
from omni_cli.storage.filesystem import NOT_SUPPORTED
from omni_cli.storage.folder_probe import probe_folder


def test_an_ordinary_folder_passes_without_a_word_and_is_left_as_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "mine").write_text("kept")
    probe_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert not caplog.records


@pytest.mark.parametrize(
    ("call", "operation"),
    [
        ("os.open", "create files"),
        ("os.write", "write files"),
        ("os.pwrite", "overwrite parts of a file"),
        ("os.pread", "read a file while it is being written"),
        ("os.fsync", r"make files durable \(fsync\)"),
        ("pathlib.Path.replace", "rename files"),
        ("os.ftruncate", "append to a file"),
    ],
)
@pytest.mark.parametrize("number", [errno.EPERM, errno.EIO, errno.ENOSPC])
def test_each_operation_that_fails_is_named_with_folder_reason_and_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, operation: str, number: int
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(call, fail)
    with pytest.raises(OutputFolderError, match=f"cannot {operation}") as refused:
        probe_folder(tmp_path)
    monkeypatch.undo()
    text = str(refused.value)
    assert f"output folder {str(tmp_path)!r} " in text
    assert f"({errno.errorcode[number]})" in text
    assert ("make room there" if number == errno.ENOSPC else "on another file system") in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", sorted(NOT_SUPPORTED))
def test_a_folder_without_fsync_is_used_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    def fail(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.fsync", fail)
    probe_folder(tmp_path)
    (record,) = caplog.records
    assert "without fsync" in record.getMessage()


def test_a_file_that_reads_back_as_something_else_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.pread", lambda *_: b"\0" * 8)
    with pytest.raises(OutputFolderError, match="what was read is not what was written"):
        probe_folder(tmp_path)


def test_a_probe_that_was_killed_leaves_what_the_next_run_sweeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pathlib.Path.unlink", lambda *_, **__: None)
    probe_folder(tmp_path)
    monkeypatch.undo()
    assert sweep(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []
