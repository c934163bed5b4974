"""Small real file systems, for tests of full disks."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "256k", inodes: int = 0) -> Iterator[Path]:
    """Mount a tmpfs of `size` (and at most `inodes` files) at `folder`; skip the test where mounting is refused."""
    folder.mkdir(parents=True)
    options = f"size={size},mode=777" + (f",nr_inodes={inodes}" if inodes else "")
    command = ["mount", "-t", "tmpfs", "-o", options, "omni-gen-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system takes root and a system that lets it")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


def fill(folder: Path) -> Path:
    """Fill the free space with one file and return it; deleting it frees the space."""
    path = folder / "ballast"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return path
