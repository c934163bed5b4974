"""Small file systems and private /dev/shm, where this user may have them; and limits where not."""

import contextlib
import functools
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

_TRY = 'mount -t tmpfs -o size=64k tmpfs "$0"'


def _runs(*command: str) -> bool:
    with contextlib.suppress(OSError):
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    return False


@functools.cache
def namespace() -> tuple[str, ...]:
    """The command that gives another one mounts of its own; empty where that is refused."""
    for flags in (["-m"], ["-rm"]):
        if _runs("unshare", *flags, "sh", "-c", _TRY, "/dev/shm"):
            return ("unshare", *flags)
    return ()


def with_mounts(script: str, *arguments: str | Path) -> tuple[str, ...]:
    """The start of a command that runs in mounts of its own, made by `script` ($1, $2, ... are `arguments`) before it begins."""
    shell = f'{script} && shift {len(arguments)} && exec "$@"'
    return (*namespace(), "sh", "-c", shell, "sh", *map(str, arguments))


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[bool]:
    """Mount a file system of `size` at `folder`, which is made; False if that is refused: it is a plain folder then."""
    folder.mkdir(parents=True)
    mounted = _runs("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def full(folder: Path) -> Iterator[None]:
    """No byte is free on the file system of `folder`, which is a small one, while the block lasts."""
    ballast = folder / ".ballast"
    try:
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 16)):
                pass
        yield
    finally:
        ballast.unlink(missing_ok=True)


@contextlib.contextmanager
def no_room(pid: int) -> Iterator[None]:
    """Process `pid` can make no file grow past 100 bytes while the block lasts: EFBIG, in every folder."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    _limit_files(pid, (100, hard))
    try:
        yield
    finally:
        _limit_files(pid, (soft, hard))


def _limit_files(pid: int, limits: tuple[int, int]) -> None:
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
