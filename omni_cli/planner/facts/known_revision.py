"""The revision of a model's files, read anew only where a file has changed: hashing takes seconds for a large model.

path ── sizes, times and inodes of its files ──> revision of an earlier run, or hashed now

As in git's index, a file is unchanged if its size, times and inode are. A worker hashes what it loads itself.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path

from omni_cli.models.content_revision import content_revision, hashed_bytes, is_commit_folder, model_files
from omni_cli.storage.filesystem import file_version
from omni_cli.storage.user_cache import cache_key, read_cached, write_cached

KIND = "revisions"
"""The kind of cached values that holds revisions."""

QUICK_BYTES = 32 << 20
"""Bytes that are hashed without asking: 0.05 s."""

SETTLED_S = 2.0
"""Seconds after which a change of a file surely changes its times: FAT stores them as coarsely as that."""


class NotHashed(Exception):
    """Raised if only a hash of many bytes could tell the revision."""


def known_revision(path: Path, environ: Mapping[str, str] = os.environ, *, quick: bool = False) -> str:
    """Return `content_revision(path)`.

    Raises NotHashed with `quick` if more than QUICK_BYTES would have to be read, OSError for files that cannot be read.
    """
    if is_commit_folder(path):
        return content_revision(path)
    before = _versions(path)
    key = cache_key(str(path.absolute()), before)
    if (known := read_cached(KIND, key, str, environ)) is not None:
        return known
    if quick and hashed_bytes(path) > QUICK_BYTES:
        raise NotHashed
    settled = time.time() - SETTLED_S
    revision = content_revision(path)
    if _versions(path) == before and all(max(version[1:3]) < settled * 1e9 for _, version in before):
        write_cached(KIND, key, revision, environ)
    return revision


def _versions(path: Path) -> list[tuple[str, tuple[int, int, int, int]]]:
    return [(str(file), file_version(file)) for file in model_files(path)]
