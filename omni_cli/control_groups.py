"""The control groups of this process: where their files are, for cgroup v2 and v1.

A limit holds for a group and all groups in it, so the smallest on the way to the root counts.
https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

SYSTEM = Path("/")


def group_folders(controller: str, root: Path = SYSTEM) -> Iterator[tuple[Path, bool]]:
    """Yield the folder of each control group of this process from its own up to the root, and whether it is of v2.

    Of v1 only the hierarchy of `controller` ("cpu", "memory") counts. `root` is the folder that has `proc` and `sys`.
    A container that sees the host's path in `proc` has its own group as the root of `sys`.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        group = PurePosixPath(path.lstrip("/"))
        for parent in (group, *group.parents):
            if not controllers:
                yield root / "sys/fs/cgroup" / parent, True
            elif controller in controllers.split(","):
                yield root / "sys/fs/cgroup" / controller / parent, False
