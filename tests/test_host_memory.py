"""The memory that can be allocated is that of the machine within the limits of every control group."""

from pathlib import Path

import pytest

from omni_cli.host_memory import free_bytes
from tests.test_cores import system

MEMINFO = "MemTotal: 2000 kB\nMemAvailable: 1000 kB\n"
FREE = 1000 * 1024


@pytest.mark.parametrize(
    ("cgroup", "files", "free"),
    [
        ("0::/\n", {}, FREE),
        ("0::/a\n", {"a/memory.max": "max", "a/memory.current": "5"}, FREE),
        ("0::/a/b\n", {"a/memory.max": "9000", "a/memory.current": "2000", "a/b/memory.max": "max"}, 7000),
        ("0::/a\n", {"a/memory.max": "1000", "a/memory.current": "2000"}, 0),
        ("4:memory:/j\n", {"memory/j/memory.limit_in_bytes": "600", "memory/j/memory.usage_in_bytes": "100"}, 500),
        ("4:cpu:/j\n", {"memory/j/memory.limit_in_bytes": "600", "memory/j/memory.usage_in_bytes": "100"}, FREE),
    ],
)
def test_the_smallest_remainder_on_the_way_to_the_root_counts(
    tmp_path: Path, cgroup: str, files: dict[str, str], free: int
) -> None:
    root = system(tmp_path, cgroup, files)
    (root / "proc/meminfo").write_text(MEMINFO)
    assert free_bytes(root) == free


def test_memory_is_unknown_without_proc_and_known_here(tmp_path: Path) -> None:
    assert free_bytes(tmp_path) is None
    assert (free_bytes() or 0) > 0
