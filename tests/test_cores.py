"""The number of usable cores follows affinity and every kind of CPU quota."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from omni_cli.cores import cpu_quota, usable_cores


def system(root: Path, cgroup: str, files: dict[str, str]) -> Path:
    for name, text in (("../../../proc/self/cgroup", cgroup), *files.items()):
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("cgroup", "files", "quota"),
    [
        ("0::/\n", {}, None),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("0::/a/b\n", {"cpu.max": "max 100000", "a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000"}, 1.5),
        ("0::/a/b\n", {"a/cpu.max": "800000 100000", "a/b/cpu.max": "300000 100000"}, 3.0),
        ("0::/a/b\n", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "300000 100000"}, 2.0),
        ("0::/gone\n", {"cpu.max": "100000 100000"}, 1.0),
        ("4:cpu,cpuacct:/j\n", {"cpu/j/cpu.cfs_quota_us": "250000\n", "cpu/j/cpu.cfs_period_us": "100000\n"}, 2.5),
        ("4:cpu,cpuacct:/j\n", {"cpu/j/cpu.cfs_quota_us": "-1\n", "cpu/j/cpu.cfs_period_us": "100000\n"}, None),
        ("4:cpuset:/j\n2:memory:/\n", {"cpu/j/cpu.cfs_quota_us": "1", "cpu/j/cpu.cfs_period_us": "1"}, None),
        ("4:cpu:/j\n0::/\n", {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
        ("nonsense\n", {"cpu.max": "x y z"}, None),
        ("0::/\n", {"cpu.max": "0 0"}, None),
    ],
)
def test_the_smallest_quota_on_the_way_to_the_root_counts(
    tmp_path: Path, cgroup: str, files: dict[str, str], quota: float | None
) -> None:
    root = system(tmp_path, cgroup, files)
    cores = len(os.sched_getaffinity(0))
    assert cpu_quota(root) == quota
    assert usable_cores(root) == (cores if quota is None else max(1, min(cores, -int(-quota // 1))))


def test_a_machine_without_control_groups_has_the_cores_of_its_affinity(tmp_path: Path) -> None:
    assert usable_cores(tmp_path) == len(os.sched_getaffinity(0))


def test_affinity_of_one_core_counts() -> None:
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from omni_cli.cores import usable_cores; print(usable_cores())"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "1\n"
