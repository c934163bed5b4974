"""Whether a model brings code of its own, or names classes of other libraries."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from omni_cli.config import ModelConfig
from omni_cli.errors import ModelLoadError
from omni_cli.models.source import components

LIBRARIES = frozenset({"diffusers", "transformers"})
"""Libraries whose classes a component may name without the user's say-so."""


def check_code(folder: Path, index: dict[str, Any], model: ModelConfig, is_known: Callable[[str], bool]) -> None:
    """Refuse a model that brings code of its own, or names classes of other libraries, unless the user trusts it.

    `is_known` says whether a library name of the index is one of diffusers' own.
    """
    if model.trust_remote_code:
        return
    foreign = []
    if not isinstance(index["_class_name"], str):
        foreign.append(f"the pipeline {index['_class_name'][-1]}")
    for component, library, _ in components(index):
        ships_code = (folder / component / f"{library}.py").is_file()
        if ships_code or not (library in LIBRARIES or is_known(library)):
            foreign.append(f"{component} ({library})")
    if foreign:
        raise ModelLoadError(
            f"--model {model.model!r} needs code that is not part of diffusers: {', '.join(foreign)}; "
            "read that code, and if you trust it pass --trust-remote-code"
        )
