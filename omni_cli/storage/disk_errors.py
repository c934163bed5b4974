"""Which errors of the operating system are faults of the disk rather than of one file, and their description."""

import errno
import os
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""No space left, or the user's quota is used up."""

OUT_OF_ORDER = frozenset(
    {
        errno.EROFS,
        errno.EIO,
        errno.ESTALE,
        errno.ENODEV,
        errno.ENXIO,
        errno.ENOTCONN,
        errno.ESHUTDOWN,
        errno.ETIMEDOUT,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
    }
)
"""A file system that was remounted read-only, a failing device, or a file server that does not answer."""

_DISK_ERRNOS = FULL | OUT_OF_ORDER


def is_disk_fault(error: OSError, root: Path) -> bool:
    """Return True if every write below the folder `root` would fail like this at present."""
    if error.errno in _DISK_ERRNOS:
        return True
    return error.errno in (errno.EACCES, errno.EPERM) and not os.access(root, os.W_OK | os.X_OK)


def find_disk_fault(text: str) -> OSError | None:
    """Return the disk fault whose C library message occurs in `text`, the output of a program; None without one."""
    for number in sorted(_DISK_ERRNOS):
        if os.strerror(number) in text:
            return OSError(number, os.strerror(number))
    return None


def describe_error(error: OSError, root: Path | None = None) -> str:
    """Return the reason with the error's name, such as "No space left on device (ENOSPC)".

    With `root`, a full disk is followed by advice to make room on the file system of `root`.
    """
    name = "" if error.errno is None else f" ({errno.errorcode.get(error.errno, error.errno)})"
    advice = f"; make room on the file system of {root}" if root is not None and error.errno in FULL else ""
    return f"{error.strerror or error}{name}{advice}"
