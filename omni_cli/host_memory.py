"""The host memory that this process can still allocate: what the machine has, within the limits of its control groups.

/proc/meminfo   MemAvailable, in units of 1024 bytes (proc(5))
cgroup v2       memory.max ("max" for none) less memory.current
cgroup v1       memory.limit_in_bytes (a huge number for none) less memory.usage_in_bytes
"""

from pathlib import Path

from omni_cli.control_groups import SYSTEM, group_folders


def free_bytes(root: Path = SYSTEM) -> int | None:
    """Return the bytes that can be allocated, 0 or more; None where unknown. `root` has `proc` and `sys`."""
    try:
        lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    for folder, is_v2 in group_folders("memory", root):
        names = ("memory.max", "memory.current") if is_v2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        try:
            limit, used = (int((folder / name).read_text(encoding="ascii")) for name in names)
        except (OSError, ValueError):  # no such file, or "max"
            continue
        free = min(free, limit - used)
    return max(0, free)
