"""Find every process of a run by a mark in its environment, whoever its parent is."""

import contextlib
import os
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path

MARK = "OMNI_CHAOS_MARK"

WORKER, ENCODER = "worker", "ffmpeg -i"


@dataclass(frozen=True)
class Family:
    """Processes with `mark` in their environment."""

    mark: str = field(default_factory=lambda: secrets.token_hex(16))

    def environment(self) -> dict[str, str]:
        """Return the environment for the first process; its descendants inherit the mark."""
        return {**os.environ, MARK: self.mark}

    def alive(self) -> set[int]:
        """Return the pids of all that run; zombies do not count."""
        wanted = f"{MARK}={self.mark}".encode()
        found = set()
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                with contextlib.suppress(OSError):  # it has just ended, or is another user's
                    if wanted in Path(entry.path, "environ").read_bytes().split(b"\0") and not is_zombie(
                        int(entry.name)
                    ):
                        found.add(int(entry.name))
        return found

    def wait_until_gone(self, patience: float) -> float:
        """Wait until none is left and return the seconds; raise AssertionError after `patience` seconds."""
        start = time.monotonic()
        while left := self.alive():
            assert time.monotonic() < start + patience, f"still there after {patience} s: {list(map(command_of, left))}"
            time.sleep(0.01)
        return time.monotonic() - start


def children(pid: int, kind: str) -> list[int]:
    """Return the sorted pids of the workers or encoders that `pid` started."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found |= {int(child) for child in Path(task, "children").read_text().split()}
    return sorted(child for child in found if command_of(child) == kind)


def command_of(pid: int) -> str:
    """Return WORKER, ENCODER or the program of `pid`, "" if it is gone.

    Between fork and exec, a child looks like its parent. An ffmpeg without an input only says what it can do.
    """
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    if "ffmpeg" in words[0] and "-i" in words:
        return ENCODER
    return WORKER if "omni_cli.worker" in words else " ".join(words[:1]) or "zombie"


def descriptors(pid: int) -> int | None:
    """Return the number of open descriptors of `pid`, None if it is gone.

    Slots of the ring do not count: their bytes are bounded, not their number.
    """
    count = 0
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                count += not os.readlink(entry.path).startswith("/memfd:")  # noqa: PTH115 - a count, taken often
    except OSError:
        return None
    return count


def is_zombie(pid: int) -> bool:
    """Return whether `pid` has exited, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
