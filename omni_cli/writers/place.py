"""Placement: a file, or a folder of them, appears under its final name complete or not at all.

    create a hidden one beside it ── caller writes ── fsync ── hash ── rename ── fsync of the folder

What is hidden is held under an advisory lock (flock) for as long as its writer lives, however that ends. So `sweep` can tell the
leavings of a dead run from the work of a live one, in another container or process namespace too.
"""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omni_cli.digest import file_digest, folder_digest
from omni_cli.errors import WriteError

NAME_BYTES = 255
"""Longest file name of the file systems in use (NAME_MAX of ext4, xfs, btrfs, APFS, tmpfs)."""

_SUFFIX = ".omni-tmp"
_TEMPORARY = re.compile(r"\..*\.[0-9a-f]{16}\.omni-tmp", re.DOTALL)
_NOT_SUPPORTED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK})


FRAME_FILES = re.compile(r"[0-9]{6,}\.png|audio\.wav")
"""Names in a folder of frames. A folder that holds anything else is somebody's own, and is never replaced."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A file or folder in place: hash (hex) and size of the bytes on disk."""

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
        digest, size = file_digest(self.descriptor)
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


@dataclass(frozen=True, slots=True)
class PendingFolder:
    """A folder that is being filled: `temporary` is its path for now."""

    path: Path
    temporary: Path

    def commit(self) -> Placed:
        """Make the files durable and give the folder its final name, in place of the frames that had it.

        OSError (ENOTEMPTY) if the name is a folder of something else.
        """
        for file in self.temporary.iterdir():
            _sync(file, os.O_RDONLY)
        _sync_folder(self.temporary)
        digest, size = folder_digest(self.temporary)
        before = self._moved_away()
        self.temporary.rename(self.path)
        _sync_folder(self.path.parent)
        if before is not None:
            shutil.rmtree(before)
        return Placed(digest, size)

    def _moved_away(self) -> Path | None:
        """Free the final name. What was there is hidden, so that a run killed now leaves a missing folder, never half of one."""
        if self.path.is_symlink() or not self.path.is_dir():
            self.path.unlink(missing_ok=True)
            return None
        if not holds_frames_only(self.path):
            raise OSError(errno.ENOTEMPTY, "a folder of this name holds other things than frames")
        hidden = _hidden_name(self.path)
        self.path.rename(hidden)
        return hidden


@contextlib.contextmanager
def placing_folder(root: Path, name: str) -> Iterator[PendingFolder]:
    """Make a hidden folder beside `root / name`. Without a `commit` it is gone at the end. Errors as `placing`."""
    path = _inside(root, name)
    _make_folders(path.parent, root.resolve())
    temporary = _hidden_name(path)
    temporary.mkdir()
    descriptor = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(descriptor)
        yield PendingFolder(path, temporary)
    finally:
        os.close(descriptor)
        if temporary.exists():
            shutil.rmtree(temporary)


def holds_frames_only(folder: Path) -> bool:
    """True if everything in `folder` is named like a file of a folder of frames."""
    return all(FRAME_FILES.fullmatch(file.name) for file in folder.iterdir())


def sweep(root: Path) -> int:
    """Remove hidden files and folders under `root` whose writer is dead; gives their number. Symlinked folders are not entered."""
    removed = 0
    for where, folders, names in os.walk(root):
        for name in filter(_TEMPORARY.fullmatch, names):
            removed += _remove_if_dead(Path(where, name))
        for name in list(filter(_TEMPORARY.fullmatch, folders)):
            folders.remove(name)
            removed += _remove_if_dead(Path(where, name), folder=True)
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
        temporary = _hidden_name(path)
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


def _hidden_name(path: Path) -> Path:
    """A fresh name beside `path`, within NAME_BYTES."""
    ending = f".{secrets.token_hex(8)}{_SUFFIX}".encode()
    stem = os.fsencode(path.name)[: NAME_BYTES - 1 - len(ending)].decode("utf-8", "ignore")
    return path.with_name(f".{stem}{ending.decode()}")


def _lock(descriptor: int) -> None:
    """Hold what `descriptor` is open on; file systems without locks are left alone."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise


def _remove_if_dead(path: Path, folder: bool = False) -> bool:
    """Remove the hidden file (or folder) `path` if nobody holds its lock; False if it stays."""
    kind = os.O_RDONLY | os.O_DIRECTORY if folder else os.O_RDWR
    try:
        descriptor = os.open(path, kind | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False  # gone, not ours, or not a plain file
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder:
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError:
        return False  # held by a live writer, or locks are not known here: leave it
    finally:
        os.close(descriptor)
    return True


def _sync_folder(folder: Path) -> None:
    """Make the entries of `folder` durable; file systems that cannot are left alone."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
    finally:
        os.close(descriptor)
