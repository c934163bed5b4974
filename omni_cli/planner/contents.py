"""What is inside input files, as hashes: a request that reads a changed picture is another request."""

import hashlib
import os
from functools import lru_cache
from pathlib import Path


class Contents:
    """Hashes of files and folders. A file is read again only when its size, times or inode have changed."""

    def __init__(self) -> None:
        """With nothing read yet; the last 4096 files are remembered."""
        self._file_hash = lru_cache(maxsize=4096)(_file_hash)

    def digest(self, path: str) -> str:
        """SHA-256 of the file at the absolute `path`, or of every name and file under the folder there; hex.

        Raises OSError if something in it cannot be read.
        """
        if not Path(path).is_dir():
            return self._hash(path)
        whole = hashlib.sha256()
        for name in sorted(_files_under(path)):
            whole.update(os.fsencode(name) + b"\0" + self._hash(f"{path}/{name}").encode())
        return whole.hexdigest()

    def _hash(self, path: str) -> str:
        found = Path(path).stat()
        return self._file_hash(path, (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino))


def _file_hash(path: str, _identity: tuple[int, ...]) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files_under(folder: str) -> list[str]:
    """Paths of all files below `folder`, relative to it."""

    def fail(error: OSError) -> None:
        raise error

    return [
        os.path.relpath(f"{where}/{name}", folder)
        for where, _, names in os.walk(folder, onerror=fail)
        for name in names
    ]
