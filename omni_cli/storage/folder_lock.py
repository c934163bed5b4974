"""Exclusive use of an output folder: it exists, it can do what outputs need, and one run at a time holds its lock.

    a run of all requests    .omni-gen.lock            alone in the folder
    shard 0 of 4             .omni-gen.0-of-4.lock     beside the other shards of 4

Each takes its own lock first and looks at the others' then, so that of two that start at once at least one sees the
other. The lock is a `flock`, so the kernel releases it with the last descriptor of the file, however the
process ended. The content of the file only names the owner. A child of a bare `fork` shares the lock, a child that
calls `exec` does not: the descriptor is close-on-exec.
"""

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec

from omni_cli.log import logger
from omni_cli.storage.disk_errors import describe_error
from omni_cli.storage.filesystem import is_linked, open_plain_file, try_lock
from omni_cli.storage.folder_probe import probe_folder, unusable_folder
from omni_cli.storage.shards import Shard, shard_name

_PREFIX, _SUFFIX = ".omni-gen", ".lock"
LOCK_NAME = f"{_PREFIX}{_SUFFIX}"
_LOCK_NAME = re.compile(r"\.omni-gen(?:\.(\d+)-of-(\d+))?\.lock")

_TRIES, _PAUSE_S = 5, 0.01


class LockOwner(msgspec.Struct, frozen=True):
    """The run that holds a folder: the content of the lock file."""

    pid: int
    host: str
    started: datetime


@contextmanager
def lock_folder(output_dir: str | Path, shard: Shard | None = None) -> Iterator[Path]:
    """Create `output_dir` if needed, try what it can do, and keep it locked until the block ends.

    With `shard`, other shards of as many may lock it at the same time. Raises OutputFolderError if it is not a folder,
    cannot be made, lacks what outputs need (`probe_folder`), or another run has locked it.
    """
    folder = Path(output_dir)
    try:
        check_folder(folder).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise unusable_folder(folder, f"cannot be made: {reason}") from error
    try:
        descriptor = _acquire(folder, lock_name(shard))
    except OSError as error:
        raise unusable_folder(folder, f"cannot be written: {describe_error(error)}") from error
    try:
        _refuse_others(folder, shard)
        probe_folder(folder)
        yield folder
    finally:
        # Unlink before the lock is released: whoever has opened this file sees in `_acquire` that it lost its name.
        with suppress(OSError):  # the file system went away or became read-only
            (folder / lock_name(shard)).unlink()
        os.close(descriptor)


def lock_name(shard: Shard | None) -> str:
    """Return the name of the lock file of `shard`, or of a run of all requests."""
    return f"{_PREFIX}{shard_name(shard)}{_SUFFIX}"


def running_owner(output_dir: str | Path) -> LockOwner | None:
    """Return the run that holds `output_dir`, or of several shards the first that was started; None without one.

    Nothing is locked: it goes by the lock files and their pids. A run on another host counts as running as long as its
    lock file is there.
    """
    owners = filter(None, map(_running_owner, lock_files(Path(output_dir))))
    return min(owners, key=lambda owner: owner.started, default=None)


def lock_files(folder: Path) -> list[Path]:
    """Return the lock files in `folder`, of runs that may have ended; none if it cannot be read."""
    try:
        return sorted(path for path in folder.iterdir() if _LOCK_NAME.fullmatch(path.name))
    except OSError:
        return []


def _running_owner(path: Path) -> LockOwner | None:
    try:
        descriptor = open_plain_file(path)
    except OSError:
        return None
    try:
        owner = _read_owner(descriptor)
    finally:
        os.close(descriptor)
    return None if owner is None or (owner.host == socket.gethostname() and not _is_alive(owner.pid)) else owner


def check_folder(output_dir: str | Path) -> Path:
    """Return `output_dir` as a path without creating it. Raises OutputFolderError if something else has its name."""
    folder = Path(output_dir)
    if folder.is_symlink() and not folder.exists():
        raise unusable_folder(folder, f"is a symbolic link to {str(folder.readlink())!r}, which does not exist")
    if folder.exists() and not folder.is_dir():
        raise unusable_folder(folder, "is not a folder")
    return folder


def _refuse_others(folder: Path, shard: Shard | None) -> None:
    """Raise OutputFolderError if a run holds `folder` that is not another shard of as many as `shard`."""
    own = folder / lock_name(shard)
    for path in lock_files(folder):
        parts = _LOCK_NAME.fullmatch(path.name)
        is_colleague = shard is not None and parts is not None and parts[2] == str(shard[1])
        if path == own or is_colleague or not _is_held(path):
            continue
        with suppress(OSError):
            descriptor = open_plain_file(path)
            owner = _read_owner(descriptor)
            os.close(descriptor)
            advice = "wait for it or stop it; shards can share a folder with shards of the same number of parts"
            raise unusable_folder(folder, f"is in use by {_describe(owner)}", advice)


def _is_held(path: Path) -> bool:
    """Return whether a process has the lock file `path` locked."""
    try:
        descriptor = open_plain_file(path)
    except OSError:  # its run has ended
        return False
    try:
        return not try_lock(descriptor, shared=True) and _running_owner(path) is not None
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def _acquire(folder: Path, name: str) -> int:
    """Open and lock the lock file `name`; return its descriptor. Raises OutputFolderError if another run has it."""
    path = folder / name
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            _lock(descriptor, path)
            if is_linked(descriptor, path):
                _write_owner(descriptor)
                return descriptor
        except OSError:  # of the file system: no other run has a lock there
            with suppress(OSError):
                path.unlink()
            os.close(descriptor)
            raise
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the run before unlinked the file between `open` and `_lock`


def _lock(descriptor: int, path: Path) -> None:
    """Lock the lock file. Raises OutputFolderError if another run has it.

    Where the file system has no locks, the owner's process id stands in for one on the owner's machine.
    """
    folder, advice = path.parent, "wait for that run or stop it, or give this one its own --output-dir"
    try:
        locked = _try_lock(descriptor)
    except BlockingIOError:
        raise unusable_folder(folder, f"is in use by {_describe(_read_owner(descriptor))}", advice) from None
    if locked:
        return
    owner = _read_owner(descriptor)
    is_here = owner is not None and owner.host == socket.gethostname()
    if owner is not None and is_here and owner.pid != os.getpid() and _is_alive(owner.pid):
        advice += f"; if that process is no run of omni-gen, remove {str(path)!r}"
        raise unusable_folder(folder, f"is in use by {_describe(owner)}", advice)
    logger.warning(
        "%r is on a file system without locks; do not start a second run there at the same time", str(folder)
    )


def _try_lock(descriptor: int) -> bool:
    """Do `try_lock`, again for a moment if it fails: `_is_held` of another run has each lock for that long."""
    for _ in range(_TRIES - 1):
        with suppress(BlockingIOError):
            return try_lock(descriptor)
        time.sleep(_PAUSE_S)
    return try_lock(descriptor)


def _is_alive(pid: int) -> bool:
    """Return True if the process runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        pass
    return True


def _write_owner(descriptor: int) -> None:
    owner = LockOwner(os.getpid(), socket.gethostname(), datetime.now().astimezone().replace(microsecond=0))
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, msgspec.json.encode(owner) + b"\n", 0)


def _read_owner(descriptor: int) -> LockOwner | None:
    """Return the owner of the lock; None while it has not yet written its details."""
    try:
        return msgspec.json.decode(os.pread(descriptor, 4096, 0), type=LockOwner)
    except msgspec.MsgspecError:
        return None


def _describe(owner: LockOwner | None) -> str:
    if owner is None:
        return "another run"
    return f"another run (pid {owner.pid} on {owner.host!r}, started {owner.started.isoformat()!r})"
