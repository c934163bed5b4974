"""A whole model in one .safetensors file: which pipeline it is, and loading it.

The class comes from `--pipeline`, else from the configuration that `--config` names, else from the names and shapes of the
tensors, which the file's header tells without reading a weight.
"""

import json
from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers.loaders.single_file_utils import DIFFUSERS_DEFAULT_PIPELINE_PATHS, infer_diffusers_model_type
from safetensors import SafetensorError, safe_open

from omni_cli.config import ModelConfig
from omni_cli.errors import ModelLoadError
from omni_cli.models.source import read_index
from omni_cli.worker.loader.hub import explained, index_file

_ADVICE = (
    "give --pipeline CLASS and --config FOLDER (a diffusers folder of the same architecture, its weights are not read)"
)


def load_file(path: Path, model: ModelConfig, dtype: torch.dtype) -> Any:
    """The pipeline in `path`; ModelLoadError if its kind is not known or parts are missing."""
    config = _config_of(path, model)
    pipeline_class = pipeline_named(model.pipeline or _class_of(config))
    if not hasattr(pipeline_class, "from_single_file"):
        raise ModelLoadError(f"--model {model.model!r}: {pipeline_class.__name__} cannot be loaded from a single file")
    with explained(model.model):
        return pipeline_class.from_single_file(str(path), config=config, torch_dtype=dtype, revision=model.revision)


def class_of_file(path: Path, model: ModelConfig) -> Any:
    """The class that `load_file` would give, told without reading a weight; ModelLoadError as there."""
    return pipeline_named(model.pipeline or _class_of(_config_of(path, model)))


def _config_of(path: Path, model: ModelConfig) -> str:
    """Folder or hub id of the configuration that the file is read with."""
    return model.config or _default_config(path, _shapes(path))


def pipeline_named(name: str) -> Any:
    """The pipeline class of diffusers with that name; ModelLoadError if there is none."""
    found = getattr(diffusers, name, None)
    if isinstance(found, type) and issubclass(found, diffusers.DiffusionPipeline):
        return found
    raise ModelLoadError(f"--pipeline {name!r}: diffusers {diffusers.__version__} has no such pipeline")


def _shapes(path: Path) -> dict[str, torch.Tensor]:
    """Weightless tensors with the names and shapes of the file."""
    try:
        with safe_open(path, framework="pt") as file:
            return {key: torch.empty(file.get_slice(key).get_shape(), device="meta") for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ModelLoadError(f"--model {str(path)!r} cannot be read as safetensors: {error}") from error


def _default_config(path: Path, shapes: dict[str, torch.Tensor]) -> str:
    """Hub id of the model that diffusers takes the configuration of such a file from."""
    try:
        kind = infer_diffusers_model_type(shapes)
    except (KeyError, IndexError, ValueError) as error:
        raise ModelLoadError(f"--model {str(path)!r}: its tensors tell no known model; {_ADVICE}") from error
    # diffusers answers "v1" for whatever it does not recognise; a Stable Diffusion file has this tensor.
    if kind == "v1" and not any(key.startswith("model.diffusion_model.") for key in shapes):
        raise ModelLoadError(f"--model {str(path)!r}: its tensors tell no known model; {_ADVICE}")
    return str(DIFFUSERS_DEFAULT_PIPELINE_PATHS[kind]["pretrained_model_name_or_path"])


def _class_of(config: str) -> str:
    """Pipeline class that the configuration, a folder or hub id, names."""
    folder = Path(config)
    if folder.is_dir():
        return str(read_index(folder, config)["_class_name"])
    try:
        return str(json.loads(index_file(config).read_text(encoding="utf-8"))["_class_name"])
    except ModelLoadError as error:
        raise ModelLoadError(f"{error}; or {_ADVICE}") from error
