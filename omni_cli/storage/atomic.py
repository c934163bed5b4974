"""Atomic files: a file, or a folder of files, appears under its final name complete or not at all.

    create a hidden one beside it ── caller writes ── hash ── fsync ── rename ── fsync of the parent folder

The hidden file is locked (flock) while its writer lives and unlocked by the kernel however the writer ends. `sweep`
therefore tells the leftovers of a dead run from files in use, in another container or process namespace too.
"""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from omni_cli.errors import StorageUnavailable, WriteError
from omni_cli.storage.digest import Digest, file_digest, folder_digest
from omni_cli.storage.disk_errors import describe_error
from omni_cli.storage.filesystem import is_rename_missing, sync, sync_descriptor, try_lock

NAME_BYTES = 255
"""Longest file name of the file systems in use (NAME_MAX of ext4, xfs, btrfs, APFS, tmpfs)."""

FRAME_FILES = re.compile(r"[0-9]{6,}\.png|audio\.wav")
"""File names in a folder of frames. A folder with any other file is the user's and is never replaced."""

_HIDDEN_SUFFIX = ".omni-tmp"
_HIDDEN_NAME = re.compile(r"\..*\.[0-9a-f]{16}\.omni-tmp", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A hidden file on its way to `path`. `descriptor` is open on `temporary` for reading and writing."""

    path: Path
    temporary: Path
    descriptor: int

    def open(self) -> BinaryIO:
        """Open the hidden file for writing; `descriptor` stays open when the returned file is closed."""
        return open(self.descriptor, "wb", closefd=False)

    def commit(self) -> Digest:
        """Hash the file, make it durable and rename it to `path`.

        Raises StorageUnavailable if the folder does not let any file be renamed, and OSError.
        """
        digest = file_digest(self.descriptor)
        sync_descriptor(self.descriptor)
        _rename_output(self.temporary, self.path)
        sync(self.path.parent)
        return digest

    def sync_and_rename(self) -> None:
        """Make the bytes durable and rename the file to `path`, replacing a file or symlink there, never its target."""
        sync_descriptor(self.descriptor)
        self.temporary.replace(self.path)
        sync(self.path.parent)

    def publish(self) -> None:
        """Rename the file to `path` without making it durable, for files that may be lost, such as previews."""
        self.temporary.replace(self.path)


@contextlib.contextmanager
def pending_file(root: Path, name: str) -> Iterator[PendingFile]:
    """Create a hidden file beside `root / name`; it is removed when the block ends without a `commit`.

    Folders below `root` are created, `root` itself is not: on a disk that was unmounted, that would fill another one.

    Raises WriteError if `name` leads out of `root` (symlinks followed), OSError from the file system.
    """
    path = _resolve_inside(root, name)
    _make_folders(path.parent, root.resolve())
    with _hidden_file(path) as pending:
        yield pending


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """Open a hidden file that replaces `path` durably at the end of the block, and keeps its mode.

    Raises OSError; `path` is unchanged after any error.
    """
    with _hidden_file(path) as pending:
        with contextlib.suppress(OSError):  # a new file, or a file system without modes
            os.fchmod(pending.descriptor, stat.S_IMODE(path.stat().st_mode))
        with pending.open() as file:
            yield file
        pending.sync_and_rename()


@dataclass(frozen=True, slots=True)
class PendingFolder:
    """A hidden folder on its way to `path`; `temporary` is where it is filled."""

    path: Path
    temporary: Path

    def commit(self) -> Digest:
        """Hash the folder, make it durable and rename it to `path`, replacing a file or a folder of frames there.

        Raises OSError (ENOTEMPTY) if `path` is a folder with other files, and the errors of `PendingFile.commit`.
        """
        digest = folder_digest(self.temporary)
        for path in (*self.temporary.iterdir(), self.temporary):
            sync(path)
        replaced = self._hide_existing()
        _rename_output(self.temporary, self.path)
        sync(self.path.parent)
        if replaced is not None:
            shutil.rmtree(replaced)
        return digest

    def _hide_existing(self) -> Path | None:
        """Free the final name; return the hidden name that a folder there got.

        Renamed rather than removed, so that a run killed now leaves a missing folder and never half of one.
        """
        if self.path.is_symlink() or not self.path.is_dir():
            self.path.unlink(missing_ok=True)
            return None
        if not holds_frames_only(self.path):
            raise OSError(errno.ENOTEMPTY, "a folder of this name holds other things than frames")
        hidden = hidden_name(self.path)
        self.path.rename(hidden)
        return hidden


@contextlib.contextmanager
def pending_folder(root: Path, name: str) -> Iterator[PendingFolder]:
    """Create a hidden folder beside `root / name`; it is removed when the block ends without a `commit`.

    Raises the errors of `pending_file`.
    """
    path = _resolve_inside(root, name)
    _make_folders(path.parent, root.resolve())
    temporary = hidden_name(path)
    temporary.mkdir()
    descriptor = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try_lock(descriptor)
        yield PendingFolder(path, temporary)
    finally:
        os.close(descriptor)
        if temporary.exists():
            shutil.rmtree(temporary)


def _rename_output(temporary: Path, path: Path) -> None:
    """Rename a finished file or folder. Raises StorageUnavailable if no other would get its name either, or OSError."""
    try:
        temporary.replace(path)
    except OSError as error:
        if is_rename_missing(error, path):
            raise StorageUnavailable(
                f"{str(path.parent)!r} does not let files be renamed: {describe_error(error)}; finished requests are"
                " kept: run the command again with an --output-dir on another file system"
            ) from error
        raise


def holds_frames_only(folder: Path) -> bool:
    """Return True if every entry of `folder` is named like a file of a folder of frames."""
    return all(FRAME_FILES.fullmatch(file.name) for file in folder.iterdir())


def sweep(root: Path) -> int:
    """Remove hidden files and folders of dead writers under `root`, and return their number.

    Symlinked folders are not entered.
    """
    removed = 0
    for parent, folders, files in os.walk(root):
        for name in filter(_HIDDEN_NAME.fullmatch, files):
            removed += _remove_unlocked(Path(parent, name), is_folder=False)
        for name in list(filter(_HIDDEN_NAME.fullmatch, folders)):
            folders.remove(name)
            removed += _remove_unlocked(Path(parent, name), is_folder=True)
    return removed


def _resolve_inside(root: Path, name: str) -> Path:
    """Return the absolute path of `root / name`. Raises WriteError if it is not inside `root`."""
    base = root.resolve()
    folder = (base / name).parent.resolve()
    leaf = Path(name).name
    if not leaf or leaf == ".." or "\0" in name or not folder.is_relative_to(base):
        raise WriteError(f"{name!r} leads out of the output folder {base}; nothing was written")
    return folder / leaf


def _make_folders(folder: Path, base: Path) -> None:
    """Create `folder` and its parents below `base` durably, each synced in its parent."""
    if not base.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"the output folder {str(base)!r} is not there")
    missing = [path for path in (folder, *folder.parents) if path.is_relative_to(base) and not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        sync(path.parent)


@contextlib.contextmanager
def _hidden_file(path: Path) -> Iterator[PendingFile]:
    """Create a locked hidden file beside `path`, its mode from the umask; it is removed unless it was renamed."""
    temporary, descriptor = create_hidden(path)
    try:
        yield PendingFile(path, temporary, descriptor)
    finally:
        temporary.unlink(missing_ok=True)
        os.close(descriptor)


def create_hidden(path: Path) -> tuple[Path, int]:
    """Return the path and descriptor of a new locked file."""
    while True:
        temporary = hidden_name(path)
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            try_lock(descriptor)
        except BlockingIOError:
            os.close(descriptor)  # a sweep has locked it and removes it
            continue
        except OSError:
            os.close(descriptor)
            raise
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)  # a sweep removed it between `open` and `try_lock`


def hidden_name(path: Path) -> Path:
    """Return an unused name beside `path`, within NAME_BYTES."""
    ending = f".{secrets.token_hex(8)}{_HIDDEN_SUFFIX}".encode()
    stem = os.fsencode(path.name)[: NAME_BYTES - 1 - len(ending)].decode("utf-8", "ignore")
    return path.with_name(f".{stem}{ending.decode()}")


def _remove_unlocked(path: Path, *, is_folder: bool) -> bool:
    """Remove the hidden file or folder `path` unless its writer lives; return True if it was removed.

    Where the file system has no locks, nothing is removed.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY if is_folder else os.O_RDWR
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False  # removed meanwhile, not readable, or not a plain file
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_folder:
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
