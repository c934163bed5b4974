"""Find a model's files and check that they are safe to load. Reads names and small JSON files only."""

import json
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

from omni_cli.errors import ModelLoadError, UsageError
from omni_cli.models.class_source import class_source
from omni_cli.models.component_files import PICKLES, Component, file_fault, folder_faults, layout_hint, merged
from omni_cli.models.demo import WEIGHTS
from omni_cli.models.registry import DEMO, INDEX, ModelChoice, file_mode
from omni_cli.storage.user_path import expand_user

CONFIG = "config.json"
"""Configuration file of a transformers model."""

_HUB_ID = re.compile(r"(?=.{1,96}\Z)[\w.-]+(/[\w.-]+)?")
"""At most 96 characters, as in huggingface_hub's `validate_repo_id`."""


class ModelForm(Enum):
    """How a model is stored: a folder in diffusers' layout, one .safetensors file, or a repository on the hub."""

    FOLDER = "folder"
    FILE = "file"
    HUB = "hub"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model's files are. `name` is as the user gave it; `path` is the folder or file, None for a hub model."""

    form: ModelForm
    name: str
    path: Path | None = None


def locate(model: ModelChoice) -> ModelFiles:
    """Return where the files of `model` are.

    Raises ModelLoadError unless it names the demo, a folder, a .safetensors file or a hub id.
    """
    name = model.model
    if name == DEMO:
        return ModelFiles(ModelForm.FOLDER, name, WEIGHTS)
    path = expand_user(name)
    mode = file_mode(path)
    if S_ISDIR(mode):
        return ModelFiles(ModelForm.FOLDER, name, path)
    if path.suffix in PICKLES:
        raise ModelLoadError(
            f"--model {name!r}: {path.suffix} files are pickles, which can run code when they are read; "
            "convert the file to .safetensors, or find the model in that format"
        )
    if S_ISREG(mode):
        if path.suffix == ".safetensors":
            return ModelFiles(ModelForm.FILE, name, path)
        raise ModelLoadError(f"--model {name!r} is a file, but not a .safetensors file")
    if _HUB_ID.fullmatch(name) and path.suffix != ".safetensors" and not name.startswith("."):
        return ModelFiles(ModelForm.HUB, name)
    raise ModelLoadError(f'--model {name!r}: no such folder or file, and not a hub id like "owner/name"')


def read_index(folder: Path, name: str) -> dict[str, Any]:
    """Return the model_index.json of `folder`, the folder of the model `name`.

    Raises ModelLoadError if it is missing, unreadable or names no pipeline class.
    """
    path = folder / INDEX
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = layout_hint(folder)
        raise ModelLoadError(
            f"--model {name!r}: the folder has no {INDEX}, so it is not a diffusers pipeline"
            + (f"; {hint}" if hint else "")
        ) from None
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"--model {name!r}: {INDEX} cannot be read: {error}") from error
    if not isinstance(index, dict) or not isinstance(index.get("_class_name"), str | list):
        raise ModelLoadError(f"--model {name!r}: {INDEX} names no pipeline class (_class_name)")
    return index


def remote_code_class(folder: Path) -> str | None:
    """Return the "module.Class" that a transformers model without a pipeline index ships; None for other folders."""
    if (folder / INDEX).is_file():
        return None
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # the loader reports what the folder lacks
    auto_map = config.get("auto_map") if isinstance(config, dict) else None
    name = auto_map.get("AutoModelForCausalLM") if isinstance(auto_map, dict) else None
    return name if isinstance(name, str) else None


def custom_pipeline_file(path: str) -> Path:
    """Return the Python file with the pipeline class: `path` itself, or pipeline.py in the folder `path`.

    Raises UsageError if there is none. A hub id is rejected as well: its code can change and has no fingerprint.
    """
    source = expand_user(path)
    file = source / "pipeline.py" if source.is_dir() else source
    if not file.is_file() or file.suffix != ".py":
        raise UsageError(
            f"--custom-pipeline {path!r}: no such Python file, nor a folder with a pipeline.py; download it first"
        )
    return file.absolute()


def pipeline_components(index: dict[str, Any]) -> list[Component]:
    """Return every component in a model_index.json that is not null."""
    components = []
    for name, value in index.items():
        if name.startswith("_") or not (isinstance(value, list) and len(value) == 2):
            continue
        library, class_name = value
        if isinstance(library, str) and isinstance(class_name, str):
            components.append(Component(name, library, class_name))
    return components


def check_weights(
    folder: Path,
    index: dict[str, Any],
    name: str,
    variant: str | None = None,
    replaced: frozenset[str] = frozenset(),
) -> None:
    """Raise ModelLoadError if files of the pipeline's components are missing, damaged or pickles.

    `replaced` are components whose weights come from elsewhere.
    """
    components = pipeline_components(index)
    if not all((folder / component.name).is_dir() for component in components):
        unread = _unread_components(index["_class_name"])
        components = [part for part in components if part.name not in unread or (folder / part.name).is_dir()]
    if faults := folder_faults(folder, components, variant, replaced):
        raise ModelLoadError(f"--model {name!r}: {merged(faults)}")


def _unread_components(pipeline: Any) -> set[str]:
    """Return the components that diffusers neither saves nor reads, because the class makes them itself.

    These are the parameters of its `__init__` that have a default and are not among its `_optional_components`.
    """
    source = class_source(pipeline) if isinstance(pipeline, str) else None
    init = None if source is None else source.method("__init__")
    if source is None or init is None:
        return set()
    names = [argument.arg for argument in init.args.args]
    with_default = names[len(names) - len(init.args.defaults) :]
    return set(with_default) - source.texts_of("_optional_components")


def check_file(path: Path, name: str) -> None:
    """Raise ModelLoadError if `path`, the single file of the model `name`, is damaged or not what its name says."""
    if (fault := file_fault(path, f"--model {name!r}:")) is not None:
        raise ModelLoadError(merged([fault]))


def without_flag(error: ModelLoadError, name: str) -> str:
    """Return the message of `error` without the leading `--model NAME`, for a model that a row names."""
    return str(error).removeprefix(f"--model {name!r}").lstrip(": ")
