"""Read from the configuration of a model what `pipeline(prompt)` alone would use: size, frames, steps, guidance.

    model_index.json, COMPONENT/config.json ──> Instance of the pipeline's class ──┬─ `__call__` ──> CallValues
                                                                                   └─ scales of its VAE ──> size rule

The code of the class is read, not run: no torch, no weights.
"""

import ast
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from omni_cli.models.class_source import ClassSource
from omni_cli.models.class_values import Instance, Reader, Scope
from omni_cli.models.expression_values import is_number
from omni_cli.models.keywords import NAMES

FIELDS = ("height", "width", "num_frames", "num_inference_steps", "guidance_scale", "true_cfg_scale", "strength", "fps")
"""Fields of a request whose defaults are read."""

_SPATIAL = ("vae_scale_factor_spatial", "vae_spatial_compression_ratio", "vae_spatial_scale_factor", "vae_scale_factor")
_TEMPORAL = ("vae_scale_factor_temporal", "vae_temporal_compression_ratio", "vae_temporal_scale_factor")
CONFIG_FILES = ("config.json", "scheduler_config.json")
"""Names of the configurations of components."""

_SIDES = ("height", "width", "int(height)", "int(width)")

LARGEST_COUNT = 1 << 16
"""Pixels, frames and steps beyond it are no default."""

MAX_CONFIG_BYTES = 1 << 20
"""A larger configuration is not read."""


@dataclass(slots=True)
class CallValues:
    """What a call of a pipeline uses for the fields of a request that are not given.

    `signature` are the defaults of the parameters. `computed` are values for parameters whose default is None.
    `divisors` are numbers of pixels that the pipeline divides height and width by.
    """

    signature: dict[str, int | float] = field(default_factory=dict)
    computed: dict[str, int | float] = field(default_factory=dict)
    divisors: set[int] = field(default_factory=set)


def pipeline_instance(pipeline: str, folder: Path | None) -> Instance:
    """Return the class `pipeline` with the components that `folder` configures.

    Without a folder, or without a file in it, what depends on it is unknown.
    """
    index = {} if folder is None else _read_json(folder / "model_index.json") or {}
    parts: dict[str, Instance | None] = {}
    for name, value in index.items():
        if isinstance(value, list) and len(value) == 2 and folder is not None:
            parts[name] = Instance(value[1], component_config(folder / name)) if isinstance(value[1], str) else None
    values = {name: value for name, value in index.items() if not name.startswith("_") and name not in parts}
    return Instance(pipeline, values, parts)


def component_config(folder: Path) -> dict[str, Any] | None:
    """Return the configuration of the component in `folder`; None if there is none that can be read."""
    return next((config for name in CONFIG_FILES if (config := _read_json(folder / name)) is not None), None)


def call_values(instance: Instance) -> CallValues:
    """Return what `__call__` of `instance` uses for what a request does not say."""
    values = CallValues()
    call = None if instance.source is None else instance.source.method("__call__")
    if call is None or instance.source is None:
        return values
    defaults = instance.defaults(call)
    names = {name: field for field in FIELDS for name in NAMES[field] if name in defaults}
    for name, key in names.items():
        if is_number(defaults[name]):
            values.signature.setdefault(key, defaults[name])
    open_names = {name: key for name, key in names.items() if defaults[name] is None}
    raising = _raising_tests(instance.source)
    reader = Reader(instance, lambda node, scope: values.divisors.update(_divisors(instance, node, scope, raising)))
    scope = {**defaults, "self": instance, **({"prompt": "prompt"} if "prompt" in defaults else {})}
    for statement in call.body:
        if reader.step(statement, scope):
            break
        for name in [name for name in open_names if scope[name] is not None]:
            key = open_names.pop(name)
            if _is_usable(key, scope[name]):
                values.computed[key] = scope[name]
    for method in instance.source.methods():
        if method is not call and {"height", "width"} & {argument.arg for argument in method.args.args}:
            reader.run(method.body, {**instance.defaults(method), "self": instance})
    return values


def scale(instance: Instance) -> int | None:
    """Return the pixels per side of a token of the denoiser: the VAE's scale times the patch size; None if unknown."""
    vae = _positive(instance, _SPATIAL)
    return None if vae is None else vae * (_patch(instance.part("transformer")) or 1)


def frame_scale(instance: Instance) -> int | None:
    """Return the frames per latent frame of the VAE; None if unknown."""
    return _positive(instance, _TEMPORAL)


def full_size(instance: Instance) -> Instance:
    """Return the pipeline as published: VAE scales that its class falls back to, patch sizes of its classes."""
    init = None if instance.source is None else instance.source.method("__init__")
    names = [] if init is None else [argument.arg for argument in (*init.args.args[1:], *init.args.kwonlyargs)]
    return Instance(instance.name, {}, dict.fromkeys(names))


def ratio(instance: Instance) -> Fraction:
    """Return the `scale` of `instance` in terms of that of the published model; 1 where one of them is unknown."""
    vae, full_vae = _positive(instance, _SPATIAL), _positive(full_size(instance), _SPATIAL)
    transformer = instance.part("transformer")
    patch = _patch(transformer)
    full_patch = None if transformer is None else _patch(Instance(transformer.name, {}))
    result = Fraction(vae, full_vae) if vae and full_vae else Fraction(1)
    return result * Fraction(patch, full_patch) if patch and full_patch else result


def frame_ratio(instance: Instance) -> Fraction:
    """Return the `frame_scale` of `instance` in terms of that of the published model; 1 where one is unknown."""
    frames, full_frames = frame_scale(instance), frame_scale(full_size(instance))
    return Fraction(frames, full_frames) if frames and full_frames else Fraction(1)


def configured_values(raw: Mapping[str, Any], instance: Instance, values: CallValues) -> dict[str, Any]:
    """Return what the configuration of `instance` changes of the raw card `raw` of its class.

    Sizes of a card hold for the published model: they are scaled to the VAE and the denoiser of `instance`.
    """
    sizes = dict(raw.get("sizes", {}))
    if "multiple" in sizes:
        sizes["multiple"] = math.lcm((sizes["multiple"] * ratio(instance)).numerator, *values.divisors)
    if sizes.get("frame_step", 1) > 1:
        sizes["frame_step"] = (sizes["frame_step"] * frame_ratio(instance)).numerator
    return {"sizes": sizes, "defaults": values.computed}


def inferred_sizes(instance: Instance, divisors: set[int]) -> dict[str, int]:
    """Return the size rule of a class without a card."""
    step = frame_scale(instance)
    sizes = {"multiple": math.lcm(scale(instance) or 8, *divisors)}
    return sizes | ({"frame_step": step, "frame_offset": 1} if step and step > 1 else {})


def _is_usable(key: str, value: Any) -> bool:
    """Return whether a request can have `value` for the field `key`."""
    is_count = key in ("height", "width", "num_frames", "num_inference_steps")
    return isinstance(value, int if is_count else int | float) and 0 < value <= LARGEST_COUNT


def _raising_tests(source: ClassSource) -> set[int]:
    """Return the ids of the nodes in conditions of `if` statements that raise an error, not just warn."""
    branches = (node for method in source.methods() for node in ast.walk(method) if isinstance(node, ast.If))
    raising = (node for node in branches if any(isinstance(statement, ast.Raise) for statement in node.body))
    return {id(part) for node in raising for part in ast.walk(node.test)}


def _divisors(instance: Instance, node: ast.AST, scope: Scope, raising: set[int]) -> Iterator[int]:
    """Yield what `node` divides a height or width by; of a remainder only if it is among the `raising` tests."""
    for part in ast.walk(node):
        match part:
            case ast.BinOp(op=ast.Mod()) if id(part) not in raising:
                pass  # the pipeline rounds such a size, which divides it
            case ast.BinOp(left=left, op=ast.Mod() | ast.FloorDiv(), right=right) if ast.unparse(left) in _SIDES:
                value = Reader(instance).value(right, scope)
                if isinstance(value, int) and 0 < value <= 4096:
                    yield value


def _positive(instance: Instance, names: tuple[str, ...]) -> int | None:
    values = (instance.attribute(name) for name in names)
    return next((value for value in values if isinstance(value, int) and 0 < value <= 4096), None)


def _patch(transformer: Instance | None) -> int | None:
    """Return the side of a patch in latent pixels; None if unknown."""
    patch = None if transformer is None else transformer.config.attribute("patch_size")
    patch = patch[-1] if isinstance(patch, list | tuple) and patch else patch
    return patch if isinstance(patch, int) and 0 < patch <= 4096 else None


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
        value = json.loads(content) if len(content) <= MAX_CONFIG_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None  # the loader reports it
    return value if isinstance(value, dict) else None
