"""Derived values in the user's cache folder: one small JSON file per key; any number of processes read and write it.

A file appears complete or not at all. One that cannot be read is as good as missing, and without a folder that can be
written nothing is kept.
"""

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from omni_cli.log import logger
from omni_cli.storage.atomic import replace_file
from omni_cli.storage.user_path import expand_user

T = TypeVar("T")

MAX_ENTRIES = 500
"""Files of a kind that are kept, those written last; each has a few KB at most."""


def cache_key(*parts: Any) -> str:
    """Return a key of everything that a value follows from, which JSON can write."""
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


def read_cached(kind: str, key: str, type_: type[T], environ: Mapping[str, str] = os.environ) -> T | None:
    """Return the value that was written under `key`; None if there is none of this type."""
    folder = _folder(kind, environ)
    if folder is None:
        return None
    try:
        return msgspec.json.decode((folder / f"{key}.json").read_bytes(), type=type_)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def write_cached(kind: str, key: str, value: Any, environ: Mapping[str, str] = os.environ) -> None:
    """Keep `value` under `key`, in place of what is there."""
    folder = _folder(kind, environ)
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replace_file(folder / f"{key}.json") as file:
            file.write(msgspec.json.encode(value))
        _remove_oldest(folder)
    except OSError as error:
        logger.info("the cache %s cannot be written: %s", folder, error)


def _folder(kind: str, environ: Mapping[str, str]) -> Path | None:
    """Return the folder of a kind of values, where the XDG Base Directory Specification places it.

    None if the user has no home folder.
    """
    root = expand_user(environ.get("XDG_CACHE_HOME") or "~/.cache")
    return root / "omni-gen" / kind if root.is_absolute() else None


def _remove_oldest(folder: Path) -> None:
    """Remove all but the MAX_ENTRIES files that were written last; another process may remove the same ones."""
    names = [entry.path for entry in os.scandir(folder) if entry.name.endswith(".json")]
    if len(names) <= MAX_ENTRIES:
        return
    times: list[tuple[float, str]] = []
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            times.append((Path(name).stat().st_mtime, name))
    for _, name in sorted(times)[:-MAX_ENTRIES]:
        Path(name).unlink(missing_ok=True)
