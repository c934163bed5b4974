"""The output folder: made, found writable, and held by one run at a time.

The hold is a `flock` on `.omni-gen.lock`, so the kernel drops it with the last descriptor of the file, however the
process died. The file's content only says who holds it. A child made by a bare `fork` shares the hold; one that execs
does not (the descriptor is close-on-exec).
"""

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec

from omni_cli.errors import OutputFolderError
from omni_cli.log import logger

LOCK_NAME = ".omni-gen.lock"

_NO_LOCKS_HERE = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK}


class _Holder(msgspec.Struct, frozen=True):
    """Content of the lock file."""

    pid: int
    host: str
    started: str


@contextmanager
def held_folder(output_dir: str | Path) -> Iterator[Path]:
    """Make `output_dir` if need be and hold it for this process alone.

    Raises OutputFolderError if it is not a folder, cannot be made or written, or is held by another run.
    """
    folder = _make(output_dir)
    try:
        lock = _acquire(folder)
    except OSError as error:
        raise _unusable(folder, f"cannot be written: {error.strerror}") from error
    try:
        yield folder
    finally:
        # Unlinked while still held: whoever opened this very file before will see that the name has moved on.
        with suppress(OSError):  # a file system that went away or became read-only
            (folder / LOCK_NAME).unlink()
        os.close(lock)


def check_folder(output_dir: str | Path) -> Path:
    """`output_dir` as a path. Raises OutputFolderError if something that is no folder stands there; makes nothing."""
    folder = Path(output_dir)
    if folder.is_symlink() and not folder.exists():
        raise _unusable(folder, f"is a symbolic link to {str(folder.readlink())!r}, which does not exist")
    if folder.exists() and not folder.is_dir():
        raise _unusable(folder, "is not a folder")
    return folder


def _make(output_dir: str | Path) -> Path:
    """The folder, existing."""
    folder = Path(output_dir)
    try:
        check_folder(folder).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _unusable(folder, f"cannot be made: {reason}") from error
    return folder


def _acquire(folder: Path) -> int:
    """A descriptor of the lock file, locked."""
    path = folder / LOCK_NAME
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            _flock(lock, folder)
            if _still_named(lock, path):
                _write_holder(lock)
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _flock(lock: int, folder: Path) -> None:
    """Take the lock, or say who has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _unusable(
            folder,
            f"is in use by {_read_holder(lock)}",
            "wait for that run or stop it, or give this one its own --output-dir",
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise
        logger.warning(
            "%r is on a file system without locks; do not start a second run there at the same time", str(folder)
        )


def _still_named(lock: int, path: Path) -> bool:
    """False if the run before unlinked this file between our open and our lock."""
    try:
        return os.path.samestat(os.fstat(lock), path.lstat())
    except FileNotFoundError:
        return False


def _write_holder(lock: int) -> None:
    """Say in the file that this process holds it."""
    holder = _Holder(os.getpid(), socket.gethostname(), datetime.now().astimezone().isoformat(timespec="seconds"))
    os.ftruncate(lock, 0)
    os.pwrite(lock, msgspec.json.encode(holder) + b"\n", 0)


def _read_holder(lock: int) -> str:
    """Who holds the file, for people; vague if the holder has only just taken it."""
    try:
        holder = msgspec.json.decode(os.pread(lock, 4096, 0), type=_Holder)
    except msgspec.MsgspecError:
        return "another run"
    return f"another run (pid {holder.pid} on {holder.host!r}, started {holder.started!r})"


def _unusable(folder: Path, reason: str, advice: str = "choose another --output-dir") -> OutputFolderError:
    """The error, in one form."""
    return OutputFolderError(f"output folder {str(folder)!r} {reason}; {advice}")
