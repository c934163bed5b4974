"""Placement: a file appears under its final name complete or not at all.

    create a hidden file beside it ── caller writes ── fsync ── hash ── rename ── fsync of the folder

The hidden file is held under an advisory lock (flock) for as long as its writer lives, however that ends. So `sweep` can tell the
leavings of a dead run from the work of a live one, in another container or process namespace too.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omni_cli.errors import WriteError

NAME_BYTES = 255
"""Longest file name of the file systems in use (NAME_MAX of ext4, xfs, btrfs, APFS, tmpfs)."""

_SUFFIX = ".omni-tmp"
_TEMPORARY = re.compile(r"\..*\.[0-9a-f]{16}\.omni-tmp", re.DOTALL)
_NOT_SUPPORTED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK})


@dataclass(frozen=True, slots=True)
class Placed:
    """A file in place: hash (hex) and size of the bytes on disk."""

    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Pending:
    """A file that is being written: `temporary` is its path for now, `descriptor` is open on it for reading and writing."""

    path: Path
    temporary: Path
    descriptor: int

    def commit(self) -> Placed:
        """Make the bytes durable and give them their final name, replacing what had it (a symlink too, never its target)."""
        os.fsync(self.descriptor)
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        with open(self.descriptor, "rb", buffering=0, closefd=False) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = os.fstat(self.descriptor).st_size
        self.temporary.replace(self.path)
        _sync_folder(self.path.parent)
        return Placed(digest, size)

    def show(self) -> None:
        """Give the bytes their final name at once, not durably: for what may be lost, such as a preview."""
        self.temporary.replace(self.path)


@contextlib.contextmanager
def placing(root: Path, name: str) -> Iterator[Pending]:
    """Open a hidden file beside `root / name`; folders below `root` are made. Without a `commit` it is gone at the end.

    Raises WriteError if `name` leads out of `root`, symlinked folders followed; OSError as the file system does, and if there is
    no `root`: where it was on a disk that has been taken away, making it again would fill another one.
    """
    path = _inside(root, name)
    _make_folders(path.parent, root.resolve())
    temporary, descriptor = _create_beside(path)
    try:
        yield Pending(path, temporary, descriptor)
    finally:
        temporary.unlink(missing_ok=True)
        os.close(descriptor)


def sweep(root: Path) -> int:
    """Remove hidden files under `root` whose writer is dead; gives their number. Symlinked folders are not entered."""
    removed = 0
    for folder, _, names in os.walk(root):
        for name in filter(_TEMPORARY.fullmatch, names):
            removed += _remove_if_dead(Path(folder, name))
    return removed


def _inside(root: Path, name: str) -> Path:
    """Absolute path of `root / name`, checked to lie in `root`."""
    base = root.resolve()
    folder = (base / name).parent.resolve()
    leaf = Path(name).name
    if not leaf or leaf == ".." or "\0" in name or not folder.is_relative_to(base):
        raise WriteError(f"{name!r} leads out of the output folder {base}; nothing was written")
    return folder / leaf


def _make_folders(folder: Path, base: Path) -> None:
    """Make `folder` and its parents below `base` durably: each new entry is synced in the folder that holds it."""
    if not base.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"the output folder {str(base)!r} is not there")
    missing = [path for path in (folder, *folder.parents) if path.is_relative_to(base) and not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        _sync_folder(path.parent)


def _create_beside(path: Path) -> tuple[Path, int]:
    """A new locked file in the folder of `path`: hidden, unique, its mode left to the umask, its name within NAME_BYTES."""
    while True:
        ending = f".{secrets.token_hex(8)}{_SUFFIX}".encode()
        stem = os.fsencode(path.name)[: NAME_BYTES - 1 - len(ending)].decode("utf-8", "ignore")
        temporary = path.with_name(f".{stem}{ending.decode()}")
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)  # a sweep holds it, and is removing it
            continue
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                os.close(descriptor)
                raise
            return temporary, descriptor
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)  # a sweep came between creation and lock


def _remove_if_dead(path: Path) -> bool:
    """Remove the hidden file `path` if nobody holds its lock; False if it stays."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False  # gone, not ours, or not a plain file
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except OSError:
        return False  # held by a live writer, or locks are not known here: leave it
    finally:
        os.close(descriptor)
    return True


def _sync_folder(folder: Path) -> None:
    """Make the entries of `folder` durable; file systems that cannot are left alone."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
    finally:
        os.close(descriptor)
