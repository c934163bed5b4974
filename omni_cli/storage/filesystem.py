"""Opening, locking, syncing and identifying files: one rule each, also for file systems that lack the system call."""

import errno
import fcntl
import os
import stat
from pathlib import Path

NOT_SUPPORTED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK})
"""Errors of system calls that a file system does not have (network shares, object stores, FUSE)."""

FileVersion = tuple[int, int, int, int]
"""Size, modification time, change time (ns) and inode of a file."""


def open_plain_file(path: str | Path, flags: int = os.O_RDONLY, *, follow_symlinks: bool = False) -> int:
    """Open a plain file and return its descriptor, without waiting for the other end of a pipe.

    Raises OSError, also for anything that is not a plain file.
    """
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_symlinks else os.O_NOFOLLOW)
    descriptor = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a plain file")
    return descriptor


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take an exclusive or `shared` `flock` on `descriptor` without waiting; False if the file system has no locks.

    Raises BlockingIOError if another process has the lock.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise
        return False
    return True


def sync(path: Path) -> bool:
    """Do `sync_descriptor` for the bytes of a file, or for the entries of a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return sync_descriptor(descriptor)
    finally:
        os.close(descriptor)


def sync_descriptor(descriptor: int) -> bool:
    """Make what was written survive a power loss; False if the file system does not support it. Raises OSError."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise
        return False
    return True


def is_rename_missing(error: OSError, target: Path) -> bool:
    """Return True if renaming a file of a folder to `target` failed as it would for every other name there."""
    if error.errno in NOT_SUPPORTED or error.errno == errno.EXDEV:
        return True
    denied = error.errno in (errno.EPERM, errno.EACCES) and os.access(target.parent, os.W_OK | os.X_OK)
    return denied and not os.path.lexists(target)  # an existing file may be protected on its own


def file_version(path: Path) -> FileVersion:
    """Return values that are equal while the file is unchanged. Raises OSError."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def is_linked(descriptor: int, path: Path) -> bool:
    """Return True if `path` is still the name of the file open as `descriptor`."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
