"""SHA-256 of files and folders: recorded for outputs and compared on resume, and part of a request for its inputs.

file             its bytes
output folder    one line `{name}\\0{SHA-256 of the file}\\n` per file, sorted by name; plain files only
input folder     `{relative path}\\0{SHA-256 of the file}` per file of the whole tree, sorted by path
"""

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from omni_cli.storage.filesystem import FileVersion, file_version, open_plain_file


class Digest(NamedTuple):
    """SHA-256 in hex and size in bytes of a file, or of all files of a folder."""

    sha256: str
    bytes: int


def file_digest(descriptor: int) -> Digest:
    """Hash the whole file open as `descriptor`. Raises OSError."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", buffering=0, closefd=False) as file:
        return Digest(hashlib.file_digest(file, "sha256").hexdigest(), os.fstat(descriptor).st_size)


def folder_digest(folder: Path) -> Digest:
    """Hash the output folder `folder`. Raises OSError if an entry is not a plain file or cannot be read."""
    total_digest, total_bytes = hashlib.sha256(), 0
    for path in sorted(folder.iterdir()):
        descriptor = open_plain_file(path)
        try:
            digest, size = file_digest(descriptor)
        finally:
            os.close(descriptor)
        total_digest.update(os.fsencode(path.name) + b"\0" + digest.encode() + b"\n")
        total_bytes += size
    return Digest(total_digest.hexdigest(), total_bytes)


class InputDigests:
    """Digests of input files and folders. A process reads a file again only when its version has changed."""

    def digest(self, path: str) -> str:
        """Return the SHA-256 in hex of the file or folder at the absolute `path`.

        Raises OSError if anything in it cannot be read.
        """
        if not Path(path).is_dir():
            return self._file(path)
        total = hashlib.sha256()
        for name in sorted(_walk_files(path)):
            total.update(os.fsencode(name) + b"\0" + self._file(f"{path}/{name}").encode())
        return total.hexdigest()

    def _file(self, path: str) -> str:
        return _path_digest(path, file_version(Path(path)))


@lru_cache(maxsize=1 << 16)
def _path_digest(path: str, _version: FileVersion) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _walk_files(folder: str) -> list[str]:
    """Return the paths of all files below `folder`, relative to it. Raises OSError if a folder cannot be listed."""

    def fail(error: OSError) -> None:
        raise error

    return [
        os.path.relpath(f"{parent}/{name}", folder)
        for parent, _, names in os.walk(folder, onerror=fail)
        for name in names
    ]
