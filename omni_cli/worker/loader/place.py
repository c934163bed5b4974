"""Which device and which dtype a model gets."""

import torch

from omni_cli import platforms
from omni_cli.config import ModelConfig
from omni_cli.errors import ModelLoadError

ALIASES = {"fp32": "float32", "float": "float32", "fp16": "float16", "half": "float16", "bf16": "bfloat16"}


def place(model: ModelConfig) -> tuple[torch.device, torch.dtype]:
    """Device and dtype with "auto" resolved: the first accelerator and its default dtype, else the CPU and float32."""
    platform, device = platforms.resolve(model.device)
    if model.dtype == "auto":
        return torch.device(device), platform.default_dtype()
    return torch.device(device), dtype_of(model.dtype)


def dtype_of(name: str) -> torch.dtype:
    """The dtype of that name; ModelLoadError if it is not a floating one."""
    found = getattr(torch, ALIASES.get(name, name), None)
    if isinstance(found, torch.dtype) and found.is_floating_point:
        return found
    raise ModelLoadError(f"--dtype {name!r} is not a floating dtype; use auto, float32, bfloat16 or float16")
