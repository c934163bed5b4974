"""Nameless files with and without memfd."""

import os
from pathlib import Path

import pytest

from omni_cli.storage.memory_file import memory_file


@pytest.mark.parametrize("memfd", [True, False])
def test_a_nameless_file_keeps_what_is_written_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memfd: bool
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if not memfd:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    with memory_file() as file:
        file.write(b"data")
        file.seek(0)
        assert file.read() == b"data"
        assert os.fstat(file.fileno()).st_nlink == 0
        assert list(tmp_path.iterdir()) == []


def test_without_a_folder_of_temporary_files_it_lies_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with memory_file() as file:
        assert file.write(b"data") == 4
