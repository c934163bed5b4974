"""Digests of outputs and of input files."""

import hashlib
from pathlib import Path

import pytest

from omni_cli.storage.digest import InputDigests, folder_digest


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_output_folder_digest_covers_names_and_bytes_in_name_order(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"two")
    (tmp_path / "a").write_bytes(b"one")
    lines = f"a\0{sha256(b'one')}\nb\0{sha256(b'two')}\n"
    assert folder_digest(tmp_path) == (sha256(lines.encode()), 6)


def test_output_folder_with_a_subfolder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    with pytest.raises(OSError, match="not a plain file"):
        folder_digest(tmp_path)


def test_input_file_digest_is_its_sha256_and_follows_changes(tmp_path: Path) -> None:
    digests, path = InputDigests(), tmp_path / "a"
    path.write_bytes(b"one")
    assert digests.digest(str(path)) == sha256(b"one")
    path.write_bytes(b"another")
    assert digests.digest(str(path)) == sha256(b"another")


def test_input_folder_digest_depends_on_names_and_bytes_but_not_on_its_location(tmp_path: Path) -> None:
    digests = InputDigests()
    for root in ("x", "y"):
        (tmp_path / root / "sub").mkdir(parents=True)
        (tmp_path / root / "sub" / "a").write_bytes(b"one")
        (tmp_path / root / "b").write_bytes(b"two")
    first = digests.digest(str(tmp_path / "x"))
    assert digests.digest(str(tmp_path / "y")) == first
    (tmp_path / "y" / "b").rename(tmp_path / "y" / "c")
    assert digests.digest(str(tmp_path / "y")) != first


def test_missing_input_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        InputDigests().digest(str(tmp_path / "none"))
