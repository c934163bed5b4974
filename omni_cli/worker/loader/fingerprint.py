"""Which version of a model this is: the hub's commit, or a hash of what is on disk.

Small files are hashed whole. A big one gives its size and evenly spaced blocks, first and last included, so that a model of
100 GB is told from its finetune in a second; any retraining changes every block.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

SUFFIXES = (".json", ".safetensors", ".txt", ".model", ".py", ".jinja")
"""Files that can change pixels: configuration, weights, vocabularies, code, chat templates."""

WHOLE_BYTES = 100 << 20
BLOCK_BYTES = 1 << 20
BLOCKS = 32

_COMMIT = re.compile(r"[0-9a-f]{40}")


def revision_of(path: Path) -> str:
    """Commit of a folder inside the hub's cache, else "sha256:" and the hash of the folder or file."""
    if path.parent.name == "snapshots" and _COMMIT.fullmatch(path.name):
        return path.name
    return f"sha256:{content_hash(path)}"


def content_hash(path: Path) -> str:
    """Hex SHA-256 over names, sizes and contents; independent of where the model lies and of file times."""
    digest = hashlib.sha256()
    root = path if path.is_dir() else path.parent
    for file in _files(path):
        size = file.stat().st_size
        digest.update(f"{file.relative_to(root).as_posix()}\0{size}\0".encode())
        for block in _blocks(file, size):
            digest.update(block)
    return digest.hexdigest()


def _files(path: Path) -> list[Path]:
    """The file itself, or the files of a folder that matter, in a fixed order; hidden folders do not."""
    if path.is_file():
        return [path]
    found = (file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    return sorted(file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts))


def _blocks(file: Path, size: int) -> Iterator[bytes]:
    """All of a small file; `BLOCKS` evenly spaced blocks of a big one."""
    with file.open("rb") as stream:
        if size <= WHOLE_BYTES:
            while block := stream.read(BLOCK_BYTES):
                yield block
            return
        for index in range(BLOCKS):
            stream.seek((size - BLOCK_BYTES) * index // (BLOCKS - 1))
            yield stream.read(BLOCK_BYTES)
