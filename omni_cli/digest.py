"""Hashes of outputs on disk: what a row records when they are placed, and what resume asks when it looks for them.

file      SHA-256 of its bytes
folder    SHA-256 of one line `{name}\\0{sha256 of the file}\\n` per file, by name; only plain files, no folders
"""

import hashlib
import os
import stat
from pathlib import Path


def file_digest(descriptor: int) -> tuple[str, int]:
    """(SHA-256 in hex, size) of the plain file open as `descriptor`, from its start. OSError for anything else."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OSError("not a plain file")
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", buffering=0, closefd=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), status.st_size


def folder_digest(folder: Path) -> tuple[str, int]:
    """(SHA-256 in hex, bytes of all files) of `folder`. OSError if something in it is no plain file or cannot be read."""
    whole, total = hashlib.sha256(), 0
    for file in sorted(folder.iterdir()):
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            digest, size = file_digest(descriptor)
        finally:
            os.close(descriptor)
        whole.update(os.fsencode(file.name) + b"\0" + digest.encode() + b"\n")
        total += size
    return whole.hexdigest(), total
