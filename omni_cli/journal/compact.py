"""Rewriting a manifest with exactly one row per id: the new file takes the name of the old in one step, or not at all."""

import errno
import os
import stat
from pathlib import Path

from omni_cli.journal.rows import kept_lines

COMPACT_NAME = ".omni-gen.manifest.tmp"


def compact(path: Path, replaced: set[int]) -> None:
    """Rewrite the manifest at `path` without the rows at the offsets `replaced`; order and other bytes stay as they are.

    The caller holds the folder and has no row in flight. Raises OSError (the old manifest is then untouched).
    """
    fresh = path.with_name(COMPACT_NAME)
    fresh.unlink(missing_ok=True)
    try:
        with path.open("rb") as old, fresh.open("xb") as new:
            os.fchmod(new.fileno(), stat.S_IMODE(os.fstat(old.fileno()).st_mode))
            new.writelines(kept_lines(old, replaced))
            new.flush()
            os.fsync(new.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make names in `folder` survive a crash of the machine, where its file system can sync folders."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
