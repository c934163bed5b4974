"""Code that is not diffusers': a model's own, of other libraries, or a pipeline class of the user's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from omni_cli.config import ModelConfig, Tuning
from omni_cli.errors import ModelLoadError, UsageError
from omni_cli.models.source import components, remote_class

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


def check_custom(model: ModelConfig) -> None:
    """Refuse a pipeline class of the user's own that is not trusted, or for a model that is not loaded by one."""
    if model.custom_pipeline is None:
        return
    if not model.trust_remote_code:
        raise UsageError(
            f"--custom-pipeline {model.custom_pipeline!r} is code that would be run; read it, and if you trust it pass "
            "--trust-remote-code"
        )
    if model.pipeline is not None:
        raise UsageError("--custom-pipeline and --pipeline both name a pipeline class; give one")
    if Path(model.model).suffix == ".safetensors":
        raise UsageError("--custom-pipeline runs a model in a folder or on the hub, not a single file")
    custom_code(model.custom_pipeline)


def custom_code(path: str) -> Path:
    """The Python file with the class: the file itself, or the pipeline.py of a folder. UsageError if there is none.

    A name or hub id, which diffusers would download and run, is refused: code that changes by itself cannot be fingerprinted.
    """
    place = Path(path).expanduser()
    file = place / "pipeline.py" if place.is_dir() else place
    if not file.is_file() or file.suffix != ".py":
        raise UsageError(
            f"--custom-pipeline {path!r}: no such Python file, nor a folder with a pipeline.py; download it first"
        )
    return file.absolute()


def check_remote(folder: Path, model: ModelConfig) -> None:
    """Refuse code that is not trusted, naming it, and settings that only a diffusers pipeline can have."""
    if not model.trust_remote_code:
        raise ModelLoadError(
            f"--model {model.model!r} needs code that comes with it: {remote_class(folder)}; "
            "read that code, and if you trust it pass --trust-remote-code"
        )
    if model.tuning != Tuning() or model.custom_pipeline is not None or model.pipeline is not None:
        raise ModelLoadError(
            f"--model {model.model!r} is no diffusers pipeline: leave out --pipeline, --custom-pipeline and the flags that "
            "tune a pipeline's parts"
        )
