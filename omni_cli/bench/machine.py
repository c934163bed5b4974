"""The machine of a measurement, and the memory of this process."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from omni_cli.cores import usable_cores

_PACKAGES = ("torch", "diffusers", "av", "pillow")


def describe_machine() -> dict[str, str | int]:
    """Return system, processor, cores that this process may use, and versions of Python and the main packages."""
    facts: dict[str, str | int] = {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": usable_cores(),
        "python": sys.version.split()[0],
    }
    for name in _PACKAGES:
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            continue
    return facts


def _processor() -> str:
    """Return the processor's model name where the system has it, else its architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def resident_bytes() -> int | None:
    """Return the resident memory of this process in bytes; None on systems other than Linux."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def reset_peak() -> int | None:
    """Reset the peak of resident memory and return its bytes now; None where unsupported (proc(5), clear_refs)."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        return _status_bytes("VmRSS")
    except OSError:
        return None


def peak_bytes() -> int:
    """Return the peak of resident memory in bytes since `reset_peak`, which must not have returned None."""
    return _status_bytes("VmHWM")


def _status_bytes(field: str) -> int:
    """Return a field of /proc/self/status in bytes; the file has units of 1024 bytes (proc(5))."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
