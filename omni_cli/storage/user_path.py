"""Paths with `~`."""

from pathlib import Path


def expand_user(path: str | Path) -> Path:
    """Return `path` with a leading `~` or `~name` expanded; as it is if there is no such user, or no home folder.

    A container's user often has neither a name nor HOME: `Path.expanduser` and `Path.home` raise RuntimeError there.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
