"""Real file systems that are too small, for tests of what happens when they are full."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "256k", inodes: int = 0) -> Iterator[Path]:
    """A tmpfs of `size` (and at most `inodes` files) mounted at `folder`. Skips the test where mounting is not allowed."""
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
    """Take all room that is left, with one file; deleting it gives it back."""
    path = folder / "ballast"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return path
