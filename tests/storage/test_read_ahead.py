"""Files are in the page cache once they have been read ahead."""

import ctypes
import mmap
import os
import time
from pathlib import Path

import pytest

from omni_cli.storage.read_ahead import read_ahead

SIZE = 8 << 20


def resident_share(path: Path) -> float:
    """Return the share of the pages of `path` that are in the page cache, by mincore(2)."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        pages = (ctypes.c_ubyte * (SIZE // mmap.PAGESIZE))()
        start = ctypes.c_char.from_buffer(mapping)
        failed = ctypes.CDLL(None, use_errno=True).mincore(
            ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(SIZE), pages
        )
        del start
    if failed:
        pytest.skip("no mincore here")
    return sum(page & 1 for page in pages) / len(pages)


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    """A file that is on the disk and not in the page cache."""
    path = tmp_path / "weights.safetensors"
    with path.open("wb") as file:
        file.write(os.urandom(SIZE))
        file.flush()
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if resident_share(path) > 0.1:
        pytest.skip("this file system keeps its pages")
    return path


def test_a_cold_file_is_read_whole(cold: Path) -> None:
    read_ahead([cold.with_name("missing"), cold])
    deadline = time.monotonic() + 20
    while resident_share(cold) < 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert resident_share(cold) == 1
