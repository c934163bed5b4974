"""What a measurement was made on."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_PACKAGES = ("torch", "diffusers", "av", "pillow")


def describe() -> dict[str, str | int]:
    """System, processor, cores this process may use, Python and the packages whose speed counts."""
    facts: dict[str, str | int] = {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "python": sys.version.split()[0],
    }
    for name in _PACKAGES:
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            continue
    return facts


def _processor() -> str:
    """The processor's own name where the system tells it, else its architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def resident_bytes() -> int | None:
    """Memory of this process that is resident now; None where the system does not tell (only Linux does here)."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def reset_peak() -> int | None:
    """Resident bytes now, with the peak set back to them (proc(5), clear_refs); None where the system cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        return _status("VmRSS")
    except OSError:
        return None


def peak_bytes() -> int:
    """The most resident bytes since `reset_peak`, where that gave a number."""
    return _status("VmHWM")


def _status(field: str) -> int:
    """A field of /proc/self/status in bytes (proc(5): it is in units of 1024)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def free_bytes() -> int | None:
    """Host memory that can be had: the system's, within the control group's limit; None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    try:
        limit, used = (
            (_CGROUP / name).read_text(encoding="ascii").strip() for name in ("memory.max", "memory.current")
        )
        return free if limit == "max" else min(free, int(limit) - int(used))
    except (OSError, ValueError):
        return free
