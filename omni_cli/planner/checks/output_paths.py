"""Check where output files land on disk: no link inside the output folder may lead a file out of it."""

import os
import stat
from functools import cached_property, lru_cache
from pathlib import Path

from omni_cli.planner.sanitize import MAX_PATH_BYTES
from omni_cli.storage.atomic import holds_frames_only


class OutputPathCheck:
    """The output folder as it is on disk at the start; it need not exist yet."""

    def __init__(self, output_dir: str) -> None:
        """Check paths below `output_dir`, whose own links are followed."""
        self._root = os.path.realpath(output_dir)
        self._parent_fault = lru_cache(maxsize=1024)(self._check_parent)
        self._max_bytes = MAX_PATH_BYTES - len(os.fsencode(self._root)) - 1

    def fault(self, path: str, folder: bool = False) -> str:
        """Return why no file (or folder of frames) can be placed at `path` in the output folder; "" if it can."""
        obstacles = self._obstacles
        is_plain_name = path.isascii() and "/" not in path and len(path) <= self._max_bytes
        if is_plain_name and obstacles is not None and path.lower() not in obstacles:
            return ""
        target = f"{self._root.rstrip('/')}/{path}"
        if len(os.fsencode(target)) > MAX_PATH_BYTES:
            return f"makes a path of more than {MAX_PATH_BYTES} bytes"
        fault = self._parent_fault(target.rpartition("/")[0] or "/")
        if fault:
            return fault
        try:
            mode = os.lstat(target).st_mode
        except OSError:
            return ""
        if stat.S_ISDIR(mode) and folder:
            return "" if holds_frames_only(Path(target)) else "is a folder there already, of other things than frames"
        if stat.S_ISDIR(mode):
            return "is a folder there already"
        # Placing a file replaces a link itself, never what it points to.
        return "" if stat.S_ISREG(mode) or stat.S_ISLNK(mode) else "is a device, pipe or socket there already"

    @cached_property
    def _obstacles(self) -> frozenset[str] | None:
        """Case-folded names in the output folder that no file can replace; None if it cannot be listed.

        Listing the folder once is cheaper than looking up every name.
        """
        try:
            with os.scandir(self._root) as entries:
                return frozenset(
                    entry.name.casefold()
                    for entry in entries
                    if not entry.is_file(follow_symlinks=False) and not entry.is_symlink()
                )
        except FileNotFoundError:
            return None if self._parent_fault(self._root) else frozenset()
        except OSError:
            return None

    def _check_parent(self, parent: str) -> str:
        """Return why no file can be placed in the folder `parent`, or ""."""
        real = os.path.realpath(parent)
        if os.path.commonpath([real, self._root]) != self._root:
            return "leaves the output folder through a symbolic link"
        existing = Path(real)
        while not existing.exists():
            existing = existing.parent
        is_inside = existing.is_relative_to(self._root)
        return "needs a folder where a file is already" if is_inside and not existing.is_dir() else ""
