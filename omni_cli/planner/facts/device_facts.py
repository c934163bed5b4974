"""Which device and dtype "auto" stands for, as far as the installed files tell without importing torch."""

import ast
import importlib.util
import os
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

from omni_cli.models.weights import DTYPE_ALIASES, ITEM_BYTES

_BACKENDS = ("cuda", "hip", "xpu")
"""Variables of torch/version.py that name the toolkit that a build of torch computes with; None in one without it."""

_BACKEND_PACKAGES = ("torch_npu", "torch_musa")
"""Packages that add a kind of device to any build of torch when they are imported."""

_VARIABLES = ("CUDA", "NVIDIA", "HIP", "ROCR", "HSA", "GPU_", "ZE_", "ONEAPI", "SYCL", "ASCEND", "MUSA", "TORCH_DEVICE")
"""Prefixes of environment variables that hide or choose devices (`CUDA_VISIBLE_DEVICES`, `ROCR_VISIBLE_DEVICES`)."""

_NODES = ("nvidia[0-9]*", "nvidia-caps/*", "dxg", "kfd", "dri/render*", "davinci[0-9]*", "mtgpu*")
"""Files in /dev of the devices that torch can use."""

_DRIVERS = ("/proc/driver/nvidia/version", "/sys/module/amdgpu/version", "/proc/sys/kernel/random/boot_id")
"""Files that differ after a driver was replaced."""


class DeviceFacts(NamedTuple):
    """A torch device string, the name of the dtype that a model gets there, and how many such devices there are."""

    device: str
    dtype: str
    devices: int = 1


def device_facts(device: str, dtype: str) -> DeviceFacts | None:
    """Return what `--device` and `--dtype` mean here; None if only torch can tell.

    The CPU is known: where it is asked for by name, and where the installed torch has no other device.
    """
    name = "float32" if dtype == "auto" else DTYPE_ALIASES.get(dtype, dtype)
    if name not in ITEM_BYTES or not (device == "cpu" or (device == "auto" and _has_only_cpu())):
        return None
    return DeviceFacts("cpu", name)


def device_environment(environ: Mapping[str, str] = os.environ) -> dict[str, object]:
    """Return what the choice of "auto" depends on besides the packages: device files, drivers, variables."""
    variables = {name: value for name, value in environ.items() if name.startswith(_VARIABLES)}
    return {
        "platform": sys.platform,
        "packages": sys.prefix,
        "nodes": sorted(str(path) for pattern in _NODES for path in Path("/dev").glob(pattern)),
        "drivers": [_text(path) for path in _DRIVERS],
        "variables": variables,
        "backends": sorted(str(point) for point in entry_points(group="torch.backends")),
    }


def _has_only_cpu() -> bool:
    """Return whether the installed torch is a build for the CPU, and no package adds a device to it."""
    version = _torch_version()
    return (
        sys.platform != "darwin"
        and version is not None
        and all(version.get(name) is None for name in _BACKENDS)
        and not entry_points(group="torch.backends")
        and all(importlib.util.find_spec(package) is None for package in _BACKEND_PACKAGES)
    )


def _torch_version() -> dict[str, object] | None:
    """Return the constants in the version.py of the installed torch; None if it cannot be read."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        tree = ast.parse(Path(spec.origin).with_name("version.py").read_text(encoding="utf-8"))
        constants: dict[str, object] = {}
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                constants.update(dict.fromkeys(names, ast.literal_eval(node.value)))
    except (OSError, ValueError, SyntaxError):
        return None
    return constants if set(_BACKENDS[:2]) <= constants.keys() else None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
