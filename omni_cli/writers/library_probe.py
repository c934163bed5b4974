"""What the libraries that encode can do, without importing them once it is known: they take 0.1 s."""

import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from omni_cli.storage.filesystem import file_version
from omni_cli.storage.user_cache import cache_key, read_cached, write_cached


def is_able(package: str, ability: str, probe: Callable[[], bool], environ: Mapping[str, str] = os.environ) -> bool:
    """Return `probe()`: whether the installed `package` (its import name) has `ability`, named so that it is unique.

    The answer is kept for this very installation of the package. For abilities of its files, not of the machine.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return probe()
    key = cache_key(spec.origin, file_version(Path(spec.origin)), ability)
    known = read_cached("libraries", key, bool, environ)
    if known is None:
        known = probe()
        write_cached("libraries", key, known, environ)
    return known
