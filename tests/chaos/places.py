"""Small file systems and a private /dev/shm, where this user may mount them; file size limits elsewhere."""

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
    """Return the command prefix that gives a command its own mount namespace; empty where that is refused."""
    for flags in (["-m"], ["-rm"]):
        if _runs("unshare", *flags, "sh", "-c", _TRY, "/dev/shm"):
            return ("unshare", *flags)
    return ()


def with_mounts(script: str, *arguments: str | Path) -> tuple[str, ...]:
    """Return a command prefix that runs `script` in a mount namespace first; $1, $2, ... are `arguments`."""
    shell = f'{script} && shift {len(arguments)} && exec "$@"'
    return (*namespace(), "sh", "-c", shell, "sh", *map(str, arguments))


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[bool]:
    """Create `folder` and mount a file system of `size` on it; yield False if mounting is refused."""
    folder.mkdir(parents=True)
    mounted = _runs("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def full(folder: Path) -> Iterator[None]:
    """Fill the small file system of `folder` inside the `with` block."""
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
    """Limit every file of process `pid` to 100 bytes inside the `with` block: writes fail with EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    _limit_files(pid, (100, hard))
    try:
        yield
    finally:
        _limit_files(pid, (soft, hard))


def _limit_files(pid: int, limits: tuple[int, int]) -> None:
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
