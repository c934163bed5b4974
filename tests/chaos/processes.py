"""Every process of a run, found by a mark in its environment: children, their children, and orphans alike."""

import contextlib
import os
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path

MARK = "OMNI_CHAOS_MARK"

WORKER, FFMPEG = "worker", "ffmpeg"


@dataclass(frozen=True)
class Family:
    """The processes that were started with `mark` in their environment."""

    mark: str = field(default_factory=lambda: secrets.token_hex(16))

    def environment(self) -> dict[str, str]:
        """What the first of them is started with; the others inherit it."""
        return {**os.environ, MARK: self.mark}

    def alive(self) -> set[int]:
        """Pids of all that are there and not only waiting to be reaped."""
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
        """Seconds until none was left; AssertionError with those that stay."""
        start = time.monotonic()
        while left := self.alive():
            assert time.monotonic() < start + patience, f"still there after {patience} s: {list(map(command_of, left))}"
            time.sleep(0.01)
        return time.monotonic() - start


def children(pid: int, kind: str) -> list[int]:
    """The workers or the ffmpeg programs that `pid` has started, in order of their pids."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found |= {int(child) for child in Path(task, "children").read_text().split()}
    return sorted(child for child in found if kind in command_of(child))


def command_of(pid: int) -> str:
    """Its program and arguments; empty if it is gone. A child that has not become its program yet looks like its parent."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    return WORKER if "omni_cli.worker" in words else " ".join(words[:1]) or "zombie"


def descriptors(pid: int) -> int | None:
    """How many it has open; None if it is gone. Slots of the ring are not counted: their bytes are bounded, not their number."""
    count = 0
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                count += not os.readlink(entry.path).startswith("/memfd:")  # noqa: PTH115 - a count, taken often
    except OSError:
        return None
    return count


def is_zombie(pid: int) -> bool:
    """True if it has ended and waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
