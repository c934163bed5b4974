"""The hash of a model's files changes with any of them, wherever they are."""

from pathlib import Path

import pytest

from omni_cli.models import content_revision


def test_the_first_and_last_byte_of_a_big_file_change_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_revision, "WHOLE_BYTES", 1000)
    monkeypatch.setattr(content_revision, "BLOCK_BYTES", 64)
    file = tmp_path / "big.safetensors"
    hashes = set()
    for position in (None, 0, 5000, 9999):
        data = bytearray(10_000)
        if position is not None:
            data[position] = 1
        file.write_bytes(data)
        hashes.add(content_revision.content_hash(file))
    assert len(hashes) >= 3  # the byte in the middle may lie between blocks; first and last never do
