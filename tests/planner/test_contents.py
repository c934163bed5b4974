"""Hashes of what files and folders hold."""

import hashlib

import pytest

from omni_cli.planner.contents import Contents


def test_a_file_is_its_sha256_and_is_read_again_when_it_changes(tmp_path):
    contents, path = Contents(), tmp_path / "a"
    path.write_bytes(b"one")
    assert contents.digest(str(path)) == hashlib.sha256(b"one").hexdigest()
    path.write_bytes(b"another")
    assert contents.digest(str(path)) == hashlib.sha256(b"another").hexdigest()


def test_a_folder_is_its_names_and_files_wherever_it_lies(tmp_path):
    contents = Contents()
    for root in ("x", "y"):
        (tmp_path / root / "sub").mkdir(parents=True)
        (tmp_path / root / "sub" / "a").write_bytes(b"one")
        (tmp_path / root / "b").write_bytes(b"two")
    first = contents.digest(str(tmp_path / "x"))
    assert contents.digest(str(tmp_path / "y")) == first
    (tmp_path / "y" / "b").rename(tmp_path / "y" / "c")
    assert contents.digest(str(tmp_path / "y")) != first


def test_what_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        Contents().digest(str(tmp_path / "none"))
