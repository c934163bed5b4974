"""Quantized weights: quantize components while loading, or load a component from a quantized file."""

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers.quantizers import PipelineQuantizationConfig

from omni_cli.config import Tuning
from omni_cli.errors import ModelLoadError
from omni_cli.storage.user_path import expand_user

DENOISERS = ("transformer", "unet", "prior", "decoder")
"""diffusers' names for the components that run once per step. A second one has the suffix `_2`."""

BACKEND_PACKAGES = {
    "bitsandbytes_4bit": "bitsandbytes",
    "bitsandbytes_8bit": "bitsandbytes",
    "quanto": "optimum",
    "torchao": "torchao",
}
"""The Python package behind each diffusers backend that quantizes while loading."""

_BACKEND_ARGUMENTS = {"bitsandbytes_4bit": {"load_in_4bit": True}, "bitsandbytes_8bit": {"load_in_8bit": True}}

_FILE_SUFFIXES = (".safetensors", ".gguf")


def quantization_problems(tuning: Tuning) -> Iterator[str]:
    """Yield one message per problem with the quantization settings and `tuning.components`."""
    name = tuning.quantization
    if name is None and (tuning.quantization_config or tuning.quantize):
        yield "--quantize and --quantization-config: need --quantization"
    if name is not None and name not in BACKEND_PACKAGES:
        yield f"--quantization {name!r}: there is no such backend; there are {', '.join(BACKEND_PACKAGES)}"
    elif name is not None and importlib.util.find_spec(BACKEND_PACKAGES[name]) is None:
        package = "optimum-quanto" if name == "quanto" else BACKEND_PACKAGES[name]
        yield f"--quantization {name} needs the {package} package: pip install {package}"
    for component, file in tuning.components.items():
        path = expand_user(file)
        if path.suffix not in _FILE_SUFFIXES or not path.is_file():
            yield f"--component {component}={file}: must be an existing file that ends in {' or '.join(_FILE_SUFFIXES)}"
        elif path.suffix == ".gguf" and importlib.util.find_spec("gguf") is None:
            yield f"--component {component}={file}: a .gguf file needs the gguf package: pip install gguf"


def quantization_arguments(tuning: Tuning, index: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `from_pretrained` that quantize components; empty without `--quantization`.

    `index` is the content of model_index.json. Raises ModelLoadError for a component the model does not have, and for
    settings the backend rejects.
    """
    if tuning.quantization is None:
        return {}
    names = tuning.quantize or tuple(name for name in index if name.removesuffix("_2") in DENOISERS)
    for name in names:
        if name not in index:
            available = ", ".join(key for key in index if not key.startswith("_"))
            raise ModelLoadError(f"--quantize {name}: the model has no such component; it has {available}")
    values = _BACKEND_ARGUMENTS.get(tuning.quantization, {}) | tuning.quantization_config
    if tuning.quantization == "torchao":
        values = {"quant_type": _torchao_config(values)}
    try:
        config = PipelineQuantizationConfig(
            quant_backend=tuning.quantization, quant_kwargs=values, components_to_quantize=list(names)
        )
    except Exception as error:  # boundary: each backend raises errors of its own types for bad settings
        raise ModelLoadError(f"--quantization-config: {tuning.quantization}: {error}") from error
    return {"quantization_config": config}


def _torchao_config(values: dict[str, Any]) -> Any:
    """Return an instance of the torchao config class `values["quant_type"]`, built with the other values."""
    api = importlib.import_module("torchao.quantization")
    name = values.get("quant_type", "Int8WeightOnlyConfig")
    config_class = getattr(api, str(name), None)
    if config_class is None:
        available = ", ".join(sorted(key for key in vars(api) if key.endswith("Config")))
        raise ModelLoadError(f"--quantization-config: torchao has no quant_type {name!r}; it has {available}")
    return config_class(**{key: value for key, value in values.items() if key != "quant_type"})


def load_components(tuning: Tuning, folder: Path, index: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """Return the components of `tuning.components`, loaded from their files, by name.

    Raises ModelLoadError for a component that cannot be loaded from a file of its own.
    """
    return {
        name: _load_component(name, expand_user(file), folder, index, dtype) for name, file in tuning.components.items()
    }


def _load_component(name: str, file: Path, folder: Path, index: dict[str, Any], dtype: torch.dtype) -> Any:
    entry = index.get(name)
    kind = getattr(diffusers, str(entry[1]), None) if isinstance(entry, list) and entry[0] == "diffusers" else None
    if kind is None or not hasattr(kind, "from_single_file"):
        loadable = [
            key
            for key, value in index.items()
            if isinstance(value, list) and hasattr(getattr(diffusers, str(value[1]), None), "from_single_file")
        ]
        raise ModelLoadError(
            f"--component {name}: cannot be loaded from a file of its own; "
            f"the components of this model that can: {', '.join(loadable) or 'none'}"
        )
    arguments: dict[str, Any] = {}
    if file.suffix == ".gguf":
        arguments["quantization_config"] = diffusers.GGUFQuantizationConfig(compute_dtype=dtype)
    try:
        return kind.from_single_file(
            str(file), config=str(folder), subfolder=name, torch_dtype=dtype, local_files_only=True, **arguments
        )
    except Exception as error:  # boundary: a library's loader may raise anything
        raise ModelLoadError(f"--component {name}={file}: {type(error).__name__}: {error}") from error
