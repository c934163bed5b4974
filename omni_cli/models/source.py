"""Where a model's files are, and whether they may be loaded. Reads names and small JSON files only; no torch."""

import json
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

from omni_cli.errors import ModelLoadError
from omni_cli.models.demo import WEIGHTS
from omni_cli.models.registry import DEMO, INDEX, ModelChoice, expanded, mode_of

CONFIG = "config.json"
"""What a model of transformers says of itself."""

PICKLES = (".bin", ".ckpt", ".pt", ".pth", ".pkl")
"""Suffixes of weight files that run code when they are read."""

_HUB_ID = re.compile(r"(?=.{1,96}\Z)[\w.-]+(/[\w.-]+)?")
"""At most 96 characters: huggingface_hub's `validate_repo_id`."""


class Form(Enum):
    """How a model is stored."""

    FOLDER = "folder"
    FILE = "file"
    HUB = "hub"


@dataclass(frozen=True, slots=True)
class Source:
    """`name` as the user gave it; `path` is the folder or file, or None for a model on the hub."""

    form: Form
    name: str
    path: Path | None = None


def locate(model: ModelChoice) -> Source:
    """What `model.model` names: the demo, a folder, a .safetensors file or a hub id; ModelLoadError for anything else."""
    name = model.model
    if name == DEMO:
        return Source(Form.FOLDER, name, WEIGHTS)
    path = expanded(name)
    mode = mode_of(path)
    if S_ISDIR(mode):
        return Source(Form.FOLDER, name, path)
    if path.suffix in PICKLES:
        raise ModelLoadError(
            f"--model {name!r}: {path.suffix} files are pickles, which can run code when they are read; "
            "convert the file to .safetensors, or find the model in that format"
        )
    if S_ISREG(mode):
        if path.suffix == ".safetensors":
            return Source(Form.FILE, name, path)
        raise ModelLoadError(f"--model {name!r} is a file, but not a .safetensors file")
    if _HUB_ID.fullmatch(name) and path.suffix != ".safetensors" and not name.startswith("."):
        return Source(Form.HUB, name)
    raise ModelLoadError(f'--model {name!r}: no such folder or file, and not a hub id like "owner/name"')


def read_index(folder: Path, name: str) -> dict[str, Any]:
    """The model_index.json of `folder`; ModelLoadError if it is missing, unreadable or without a pipeline class."""
    path = folder / INDEX
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelLoadError(_no_index(folder, name)) from None
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"--model {name!r}: {INDEX} cannot be read: {error}") from error
    if not isinstance(index, dict) or not isinstance(index.get("_class_name"), str | list):
        raise ModelLoadError(f"--model {name!r}: {INDEX} names no pipeline class (_class_name)")
    return index


def remote_class(folder: Path) -> str | None:
    """The class of its own, "module.Class", that a folder without a pipeline index maps a language model to; None for others."""
    if (folder / INDEX).is_file():
        return None
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # then it is no such model, and the loader says what it is not
    mapped = config.get("auto_map") if isinstance(config, dict) else None
    found = mapped.get("AutoModelForCausalLM") if isinstance(mapped, dict) else None
    return found if isinstance(found, str) else None


def _no_index(folder: Path, name: str) -> str:
    """Why a folder without an index is no model, with the likeliest way out."""
    files = sorted(folder.glob("*.safetensors"))
    advice = f"; if {files[0].name} is a whole model, give the file itself to --model" if len(files) == 1 else ""
    return f"--model {name!r}: the folder has no {INDEX}, so it is not a diffusers pipeline{advice}"


def components(index: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(component, library, class) of every part that the index names and that is not null."""
    found = []
    for name, value in index.items():
        if name.startswith("_") or not (isinstance(value, list) and len(value) == 2):
            continue
        library, class_name = value
        if isinstance(library, str) and isinstance(class_name, str):
            found.append((name, library, class_name))
    return found


def check_weights(folder: Path, index: dict[str, Any], name: str) -> None:
    """Refuse components whose weights come only as pickles."""
    for component, _, _ in components(index):
        files = [path.name for path in (folder / component).glob("*") if path.is_file()]
        pickles = sorted(file for file in files if file.endswith(PICKLES))
        if pickles and not any(file.endswith(".safetensors") for file in files):
            raise ModelLoadError(
                f"--model {name!r}: {component} has only {pickles[0]}, a pickle, which can run code when it is read; "
                "omni-gen loads .safetensors only: find the model in that format, or convert it "
                "(diffusers: save_pretrained(..., safe_serialization=True))"
            )


def reason_of(error: ModelLoadError, name: str) -> str:
    """What is wrong with the model `name`, without the flag that a message begins with: for whoever named it elsewhere."""
    return str(error).removeprefix(f"--model {name!r}").lstrip(": ")
