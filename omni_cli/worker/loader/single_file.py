"""Load a whole model from one .safetensors file.

The pipeline class comes from `--pipeline`, else from the configuration that `--config` names, else from the names and
shapes of the tensors in the file's header.
"""

import json
from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers.loaders.single_file_utils import DIFFUSERS_DEFAULT_PIPELINE_PATHS, infer_diffusers_model_type
from safetensors import SafetensorError

from omni_cli.config import ModelConfig
from omni_cli.errors import ModelLoadError
from omni_cli.models.hub_errors import translate_hub_errors
from omni_cli.models.model_files import read_index
from omni_cli.storage.safetensors_header import read_header
from omni_cli.worker.loader.hub import download_index, hub_or_cache

_ADVICE = (
    "give --pipeline CLASS and --config FOLDER (a diffusers folder of the same architecture, its weights are not read)"
)


def load_single_file(path: Path, model: ModelConfig, dtype: torch.dtype) -> Any:
    """Return the pipeline in `path`. Raises ModelLoadError if its class cannot be found or parts are missing."""
    config = _config(path, model)
    chosen = pipeline_class(model.pipeline or _configured_class(config))
    if not hasattr(chosen, "from_single_file"):
        raise ModelLoadError(f"--model {model.model!r}: {chosen.__name__} cannot be loaded from a single file")
    with translate_hub_errors(model.model):
        return chosen.from_single_file(str(path), config=config, torch_dtype=dtype, revision=model.revision)


def single_file_class(path: Path, model: ModelConfig) -> Any:
    """Return the class of `load_single_file`'s pipeline without reading weights. Raises ModelLoadError likewise."""
    return pipeline_class(model.pipeline or _configured_class(_config(path, model)))


def pipeline_class(name: str) -> Any:
    """Return the diffusers pipeline class `name`. Raises ModelLoadError if there is none."""
    kind = getattr(diffusers, name, None)
    if isinstance(kind, type) and issubclass(kind, diffusers.DiffusionPipeline):
        return kind
    raise ModelLoadError(f"--pipeline {name!r}: diffusers {diffusers.__version__} has no such pipeline")


def _config(path: Path, model: ModelConfig) -> str:
    """Return the folder or hub id of the configuration that the file is loaded with."""
    if model.config:
        return model.config
    tensors = _meta_tensors(path)
    try:
        kind = infer_diffusers_model_type(tensors)
    except (KeyError, IndexError, ValueError) as error:
        raise ModelLoadError(f"--model {str(path)!r}: its tensors match no known model; {_ADVICE}") from error
    # diffusers returns "v1" for every file it does not recognise; a Stable Diffusion file has this tensor.
    if kind == "v1" and not any(key.startswith("model.diffusion_model.") for key in tensors):
        raise ModelLoadError(f"--model {str(path)!r}: its tensors match no known model; {_ADVICE}")
    return str(DIFFUSERS_DEFAULT_PIPELINE_PATHS[kind]["pretrained_model_name_or_path"])


def _meta_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Return tensors on the meta device with the names and shapes of those in the file."""
    try:
        header = read_header(path)
    except (SafetensorError, OSError) as error:
        raise ModelLoadError(f"--model {str(path)!r} cannot be read as safetensors: {error}") from error
    return {key: torch.empty(tensor.shape, device="meta") for key, tensor in header.items()}


def _configured_class(config: str) -> str:
    """Return the name of the pipeline class in a configuration, given as a folder or a hub id."""
    folder = Path(config)
    if folder.is_dir():
        return str(read_index(folder, config)["_class_name"])
    try:
        with hub_or_cache(config, None, lambda what: None):
            return str(json.loads(download_index(config).read_text(encoding="utf-8"))["_class_name"])
    except ModelLoadError as error:
        raise ModelLoadError(f"{error}; or {_ADVICE}") from error
