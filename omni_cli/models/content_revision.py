"""The version of a model: the hub's commit, or a hash of its files.

Files up to `WHOLE_BYTES` are hashed whole. Of a larger file, the size and `BLOCKS` evenly spaced blocks are hashed,
including the first and the last one. That takes about a second for a model of 100 GB, and any retraining changes every
block.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from omni_cli.models.model_files import custom_pipeline_file
from omni_cli.models.registry import ModelChoice
from omni_cli.storage.user_path import expand_user

MODEL_SUFFIXES = (".json", ".safetensors", ".txt", ".model", ".py", ".jinja")
"""Suffixes of the files that can change pixels: configuration, weights, vocabularies, code, chat templates."""

WHOLE_BYTES = 100 << 20
BLOCK_BYTES = 1 << 20
BLOCKS = 32

_COMMIT = re.compile(r"[0-9a-f]{40}")


def model_revision(
    path: Path, model: ModelChoice, components: Mapping[str, str], revision_of: Callable[[Path], str] | None = None
) -> str:
    """Return the revisions of everything that `model` is loaded from, joined by "+".

    These are the folder or file at `path`, the local configuration of a single file, the custom pipeline's code, and
    the files of single `components` by name. `revision_of` gives that of each in place of `content_revision`. Raises
    UsageError if there is no such code, OSError for a missing file.
    """
    parts = [path]
    if path.is_file() and model.config and Path(model.config).is_dir():
        parts.append(Path(model.config))
    if model.custom_pipeline is not None:
        parts.append(custom_pipeline_file(model.custom_pipeline))
    parts += [expand_user(file) for _, file in sorted(components.items())]
    return "+".join((revision_of or content_revision)(part) for part in parts)


def content_revision(path: Path) -> str:
    """Return the commit of a folder in the hub's cache; "sha256:" and the content hash for other folders and files."""
    return path.name if is_commit_folder(path) else f"sha256:{content_hash(path)}"


def is_commit_folder(path: Path) -> bool:
    """Return whether `path` is a folder in the hub's cache, whose name is its commit."""
    return path.parent.name == "snapshots" and _COMMIT.fullmatch(path.name) is not None


def model_files(path: Path) -> list[Path]:
    """Return the files that `content_hash(path)` reads, in their order."""
    if path.is_file():
        return [path]
    candidates = (file for file in path.rglob("*") if file.suffix in MODEL_SUFFIXES and file.is_file())
    return sorted(file for file in candidates if not _is_hidden(file.relative_to(path)))


def hashed_bytes(path: Path) -> int:
    """Return the bytes that `content_hash(path)` reads."""
    sizes = (file.stat().st_size for file in model_files(path))
    return sum(size if size <= WHOLE_BYTES else BLOCKS * BLOCK_BYTES for size in sizes)


def content_hash(path: Path) -> str:
    """Return the hex SHA-256 of the names, sizes and contents of a file, or of the model files of a folder.

    The hash does not depend on the location of the model or on file times. Hidden folders are skipped.
    """
    digest = hashlib.sha256()
    root = path.parent if path.is_file() else path
    for file in model_files(path):
        size = file.stat().st_size
        digest.update(f"{file.relative_to(root).as_posix()}\0{size}\0".encode())
        for block in _blocks(file, size):
            digest.update(block)
    return digest.hexdigest()


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _blocks(file: Path, size: int) -> Iterator[bytes]:
    """Yield all blocks of a small file, or `BLOCKS` evenly spaced blocks of a large one."""
    with file.open("rb") as stream:
        if size <= WHOLE_BYTES:
            while block := stream.read(BLOCK_BYTES):
                yield block
            return
        for index in range(BLOCKS):
            stream.seek((size - BLOCK_BYTES) * index // (BLOCKS - 1))
            yield stream.read(BLOCK_BYTES)
