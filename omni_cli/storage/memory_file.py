"""Nameless files in memory, which need no folder."""

import os
import tempfile
from pathlib import Path
from typing import BinaryIO


def memory_file(buffering: int = -1) -> BinaryIO:
    """Open an empty file in memory (memfd), or an unlinked temporary file where the system has none. Raises OSError."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("omni-gen", os.MFD_CLOEXEC)
    else:
        descriptor, name = tempfile.mkstemp()
        Path(name).unlink()
    return os.fdopen(descriptor, "w+b", buffering)
