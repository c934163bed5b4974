"""Find the parts of a model that need code from outside of diffusers."""

import importlib.util
from pathlib import Path
from typing import Any

from omni_cli.errors import ModelLoadError
from omni_cli.models.model_files import pipeline_components

TRUSTED_LIBRARIES = frozenset({"diffusers", "transformers"})
"""Libraries whose classes a component may use without --trust-remote-code."""


def check_foreign_code(folder: Path, index: dict[str, Any], name: str, *, trusted: bool) -> None:
    """Raise ModelLoadError if the diffusers folder of the model `name` needs code of others that is not `trusted`."""
    if not trusted and (foreign := foreign_code(folder, index)):
        raise ModelLoadError(
            f"--model {name!r} needs code that is not part of diffusers: {', '.join(foreign)}; "
            "read that code, and if you trust it pass --trust-remote-code"
        )


def foreign_code(folder: Path, index: dict[str, Any]) -> list[str]:
    """Return what needs code of others in the diffusers folder with this model_index.json.

    That is a pipeline class with a module of its own, and components of libraries that are not trusted.
    """
    foreign = []
    if not isinstance(index["_class_name"], str):
        foreign.append(f"the pipeline {index['_class_name'][-1]}")
    for component, library, _ in pipeline_components(index):
        ships_code = (folder / component / f"{library}.py").is_file()
        if ships_code or not (library in TRUSTED_LIBRARIES or _is_pipeline_module(library)):
            foreign.append(f"{component} ({library})")
    return foreign


def _is_pipeline_module(name: str) -> bool:
    """Return whether the installed diffusers has a module `diffusers.pipelines.NAME`."""
    spec = importlib.util.find_spec("diffusers")
    if spec is None or spec.origin is None or not name.isidentifier():
        return False
    path = Path(spec.origin).parent / "pipelines" / name
    return path.is_dir() or path.with_suffix(".py").is_file()
