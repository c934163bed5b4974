"""The number of cores that this process may use: its affinity, cut down to the CPU quota of its control groups.

affinity     sched_getaffinity: taskset, Slurm, `docker run --cpuset-cpus`
cgroup v2    cpu.max: "quota period" in microseconds, or "max": `docker run --cpus`, Kubernetes limits
cgroup v1    cpu.cfs_quota_us, cpu.cfs_period_us: a quota of -1 is none
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path

from omni_cli.control_groups import SYSTEM, group_folders


def usable_cores(root: Path = SYSTEM) -> int:
    """Return the number of cores to compute on, 1 or more; a part of a core counts as a whole one.

    `root` is the folder that has `proc` and `sys`.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota(root)
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def cpu_quota(root: Path = SYSTEM) -> float | None:
    """Return the smallest CPU quota of this process's control groups in cores, None if there is none."""
    quotas = [quota for files in _quota_files(root) if (quota := _quota(*files)) is not None]
    return min(quotas, default=None)


def _quota_files(root: Path) -> Iterator[tuple[Path, ...]]:
    """Yield the files with the quota of each control group of this process, from its own up to the root."""
    for folder, is_v2 in group_folders("cpu", root):
        names = ("cpu.max",) if is_v2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        yield tuple(folder / name for name in names)


def _quota(*files: Path) -> float | None:
    """Return the quota in cores that the files hold, None if they hold none or are not there."""
    try:
        quota, period = map(int, " ".join(file.read_text() for file in files).split())
    except (OSError, ValueError):  # no such file, or "max"
        return None
    return quota / period if quota > 0 and period > 0 else None
