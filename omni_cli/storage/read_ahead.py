"""Ask the kernel to read files into its page cache before they are used."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

STEP_BYTES = 128 << 10
"""Bytes per request. Linux reads no more for one than the device's read-ahead, by default 128 KiB (mm/readahead.c)."""


def read_ahead(files: Iterable[Path]) -> None:
    """Start to read `files`, in their order, and return when all of it is asked for; does nothing without fadvise.

    A file that cannot be read is left out.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    for file in files:
        with suppress(OSError):
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            try:
                for offset in range(0, os.fstat(descriptor).st_size, STEP_BYTES):
                    os.posix_fadvise(descriptor, offset, STEP_BYTES, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(descriptor)
