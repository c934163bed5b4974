"""Which failures of the operating system lie with the disk and not with what is being written, and how people are told."""

import errno
import os
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""No room, or none for this user."""

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
"""A file system that was remounted read-only, a device that fails, a server or a bridge to one that does not answer."""

_FAULTS = FULL | OUT_OF_ORDER


def lies_with_the_disk(error: OSError, root: Path) -> bool:
    """True if whatever is written under the folder `root` would fail like this: now, though perhaps not later."""
    if error.errno in _FAULTS:
        return True
    return error.errno in (errno.EACCES, errno.EPERM) and not os.access(root, os.W_OK | os.X_OK)


def fault_named_in(text: str) -> OSError | None:
    """The disk's fault that a program reports in its own words (those of the C library), if it does."""
    for number in sorted(_FAULTS):
        if os.strerror(number) in text:
            return OSError(number, os.strerror(number))
    return None


def reason(error: OSError, root: Path | None = None) -> str:
    """Why, for people: with the error's name, and for a full disk where to make room, if `root` says it."""
    name = "" if error.errno is None else f" ({errno.errorcode.get(error.errno, error.errno)})"
    advice = f"; make room on the file system of {root}" if root is not None and error.errno in FULL else ""
    return f"{error.strerror or error}{name}{advice}"
