"""The key of a model's facts: everything that they follow from. Facts under another key are never used."""

import hashlib
from functools import cache
from pathlib import Path

import msgspec

import omni_cli
from omni_cli.config import ModelConfig
from omni_cli.dependencies import installed_version
from omni_cli.models.registry import real_path
from omni_cli.planner.facts.device_facts import device_environment
from omni_cli.storage.filesystem import file_version
from omni_cli.storage.user_cache import cache_key
from omni_cli.storage.user_path import expand_user

PACKAGES = ("torch", "diffusers", "transformers")
"""Packages whose versions can change pixels."""

_CODE = ("models", "platforms", "worker")
"""Packages of omni-gen that derive facts."""


def facts_key(model: ModelConfig, revision: str, path: Path) -> str:
    """Return the key of the facts of `model`, the folder or file at `path` whose content is `revision`.

    It covers the model's content and name, how it is loaded, user cards (also those in its folder), the code that
    derives facts, the versions of the libraries, and the devices of this machine.
    """
    cards = [expand_user(model.cards)] if model.cards is not None else []
    cards += sorted(path.glob("*.toml")) if path.is_dir() else []
    content = {
        "revision": revision,
        "model": {**msgspec.to_builtins(model), "model": real_path(model.model, Path()), "name": None},
        "cards": [hashlib.sha256(path.read_bytes()).hexdigest() for path in cards],
        "code": _code_version(),
        "versions": library_versions(),
        "machine": device_environment(),
    }
    return cache_key(content)


@cache
def library_versions() -> dict[str, str]:
    """Return the versions of the installed PACKAGES."""
    versions = {name: installed_version(name) for name in PACKAGES}
    return {name: version for name, version in versions.items() if version is not None}


@cache
def _code_version() -> str:
    """Return omni-gen's version and a hash of sizes and times of the files that derive facts."""
    root = Path(omni_cli.__file__).parent
    files = sorted(path for name in _CODE for path in (root / name).rglob("*") if path.suffix in (".py", ".toml"))
    versions = [(str(path.relative_to(root)), *file_version(path)[:2]) for path in files]
    return f"{omni_cli.__version__} {hashlib.sha256(repr(versions).encode()).hexdigest()}"
