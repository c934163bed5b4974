"""Quantized weights: a backend of diffusers over whole components, or a component from a file that is quantized already."""

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

PACKAGES = {
    "bitsandbytes_4bit": "bitsandbytes",
    "bitsandbytes_8bit": "bitsandbytes",
    "quanto": "optimum",
    "torchao": "torchao",
}
"""The package behind each backend of diffusers' quantizers that quantizes while it loads."""

FLAGS = {"bitsandbytes_4bit": {"load_in_4bit": True}, "bitsandbytes_8bit": {"load_in_8bit": True}}

_SUFFIXES = (".safetensors", ".gguf")


def check_quantization(tuning: Tuning) -> Iterator[str]:
    """What is wrong with `quantization` and `components`."""
    name = tuning.quantization
    if name is None and (tuning.quantization_config or tuning.quantize):
        yield "--quantize and --quantization-config: need --quantization"
    if name is not None and name not in PACKAGES:
        yield f"--quantization {name!r}: there is no such backend; there are {', '.join(PACKAGES)}"
    elif name is not None and importlib.util.find_spec(PACKAGES[name]) is None:
        package = "optimum-quanto" if name == "quanto" else PACKAGES[name]
        yield f"--quantization {name} needs the {package} package: pip install {package}"
    for component, file in tuning.components.items():
        path = Path(file).expanduser()
        if path.suffix not in _SUFFIXES or not path.is_file():
            yield f"--component {component}={file}: must be a file that is there and ends in {' or '.join(_SUFFIXES)}"
        elif path.suffix == ".gguf" and importlib.util.find_spec("gguf") is None:
            yield f"--component {component}={file}: a .gguf file needs the gguf package: pip install gguf"


def quantization(tuning: Tuning, index: dict[str, Any], denoisers: tuple[str, ...]) -> dict[str, Any]:
    """Keywords for `from_pretrained`; none without `--quantization`. `index` is the content of model_index.json."""
    if tuning.quantization is None:
        return {}
    components = tuning.quantize or tuple(name for name in index if name.removesuffix("_2") in denoisers)
    for name in components:
        if name not in index:
            has = ", ".join(key for key in index if not key.startswith("_"))
            raise ModelLoadError(f"--quantize {name}: the model has no such component; it has {has}")
    values = FLAGS.get(tuning.quantization, {}) | tuning.quantization_config
    if tuning.quantization == "torchao":
        values = {"quant_type": _torchao_type(values)}
    try:
        chosen = PipelineQuantizationConfig(
            quant_backend=tuning.quantization, quant_kwargs=values, components_to_quantize=list(components)
        )
    except Exception as error:  # boundary: each backend refuses keywords in its own way
        raise ModelLoadError(f"--quantization-config: {tuning.quantization}: {error}") from error
    return {"quantization_config": chosen}


def _torchao_type(values: dict[str, Any]) -> Any:
    """The torchao config class that `quant_type` names, built with the other values."""
    api = importlib.import_module("torchao.quantization")
    name = values.get("quant_type", "Int8WeightOnlyConfig")
    kind = getattr(api, str(name), None)
    if kind is None:
        has = ", ".join(sorted(key for key in vars(api) if key.endswith("Config")))
        raise ModelLoadError(f"--quantization-config: torchao has no quant_type {name!r}; it has {has}")
    return kind(**{key: value for key, value in values.items() if key != "quant_type"})


def components(tuning: Tuning, folder: Path, index: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """The components that come from files of their own, by name, ready to be passed to `from_pretrained`."""
    return {
        name: _component(name, Path(file).expanduser(), folder, index, dtype)
        for name, file in tuning.components.items()
    }


def _component(name: str, file: Path, folder: Path, index: dict[str, Any], dtype: torch.dtype) -> Any:
    entry = index.get(name)
    kind = getattr(diffusers, str(entry[1]), None) if isinstance(entry, list) and entry[0] == "diffusers" else None
    if kind is None or not hasattr(kind, "from_single_file"):
        has = [
            key
            for key, value in index.items()
            if isinstance(value, list) and hasattr(getattr(diffusers, str(value[1]), None), "from_single_file")
        ]
        raise ModelLoadError(
            f"--component {name}: cannot come from a file of its own; of this model can: {', '.join(has) or 'none'}"
        )
    more = (
        {"quantization_config": diffusers.GGUFQuantizationConfig(compute_dtype=dtype)} if file.suffix == ".gguf" else {}
    )
    try:
        return kind.from_single_file(
            str(file), config=str(folder), subfolder=name, torch_dtype=dtype, local_files_only=True, **more
        )
    except Exception as error:  # boundary: a loader of another library may raise anything
        raise ModelLoadError(f"--component {name}={file}: {type(error).__name__}: {error}") from error
