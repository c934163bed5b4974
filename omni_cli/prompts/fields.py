"""The fields of a request: their names, and what each may hold in any format."""

from collections.abc import Callable, Mapping
from typing import Any

from omni_cli.errors import Diagnostic, DiagnosticError
from omni_cli.inputs import FIELD_KINDS
from omni_cli.prompts import rules
from omni_cli.prompts.scan import Member, Node
from omni_cli.request import Adapter, GenerationRequest
from omni_cli.text import quote

FIELDS: tuple[str, ...] = GenerationRequest.__struct_fields__

ALIASES: Mapping[str, str] = {
    "steps": "num_inference_steps",
    "cfg_scale": "guidance_scale",
    "n": "num_outputs",
    "num_images_per_prompt": "num_outputs",
    "num_videos_per_prompt": "num_outputs",
    "custom_id": "id",
    "num_outputs_per_prompt": "num_outputs",
    "request_id": "id",
    "image_path": "image",
    "image_paths": "image",
}
"""Names of other tools, and the fields that they mean. `size` ("WxH") means two fields and is not among them."""

SIZE, EXTRA, META = "size", "extra", "meta"

NAMES: tuple[str, ...] = (*FIELDS, *ALIASES, SIZE)
"""Every name that a row may give a field."""

RULES: Mapping[str, rules.Rule] = {
    "id": rules.request_id,
    "model": rules.model_name,
    "prompt": rules.text,
    "negative_prompt": rules.text,
    "prompt_weighting": rules.weighting,
    "seed": rules.seed,
    "height": rules.whole(1, rules.MAX_SIDE),
    "width": rules.whole(1, rules.MAX_SIDE),
    "num_frames": rules.whole(1, rules.MAX_FRAMES),
    "seconds": rules.real(0, rules.MAX_SECONDS, above=True),
    "fps": rules.real(0, rules.MAX_FPS, above=True),
    "num_inference_steps": rules.whole(1, rules.MAX_STEPS),
    "guidance_scale": rules.real(),
    "guidance_scale_2": rules.real(),
    "true_cfg_scale": rules.real(),
    "strength": rules.real(0, 1),
    "last_image": rules.path,
    "mask": rules.path,
    "video": rules.path,
    "prompt_embeds": rules.path,
    "latents": rules.path,
    "num_outputs": rules.whole(1, rules.MAX_OUTPUTS),
    "interpolate": rules.whole(1, rules.MAX_INTERPOLATE),
    "output": rules.output_name,
    "format": rules.format_name,
    "quality": rules.whole(1, 100),
}
"""The rule of every field that holds a single value. `NESTED` has those of the others."""

NUMBERS = frozenset(RULES) - {
    "id",
    "model",
    "prompt",
    "negative_prompt",
    "prompt_weighting",
    *FIELD_KINDS,
    "output",
    "format",
}
"""The fields that hold a number; those of `RULES` besides hold text."""

Diagnostics = list[Diagnostic]


def field_of(name: str) -> str | None:
    """Return the field that `name` means (`size` means itself), or None."""
    return name if name in RULES or name in NESTED or name == SIZE else ALIASES.get(name)


def filled_fields(field: str | None) -> tuple[str, ...]:
    """Return the fields of a request that `field` gives a value to: two for `size`, none for None."""
    if field is None:
        return ()
    return ("width", "height") if field == SIZE else (field,)


def apply_rule(rule: Callable[[object], Any], node: Node, field: str, diagnostics: Diagnostics) -> Any:
    """Return the value that `rule` makes of `node`; None, and a diagnostic at the node, if it breaks the rule."""
    try:
        return rule(node.value)
    except DiagnosticError as error:
        diagnostics.append(error.at(field, node.offset))
        return None


def image(node: Node, diagnostics: Diagnostics) -> str | list[str] | None:
    """Return a path or a list of at least one path."""
    if not isinstance(node.value, list):
        single: str | None = apply_rule(rules.path, node, "image", diagnostics)
        return single
    if not node.value:
        remedy = "give a path or a list of paths"
        diagnostics.append(Diagnostic("is an empty list", remedy, "image", offset=node.offset))
    paths = [apply_rule(rules.path, item, f"image[{index}]", diagnostics) for index, item in enumerate(node.value)]
    return [path for path in paths if path is not None]


def lora(node: Node, diagnostics: Diagnostics) -> list[Adapter]:
    """Return the adapters of a path, an object of `path` and `weight`, or a list of either; an empty list is none."""
    if not isinstance(node.value, list):
        adapters = [_adapter(node, "lora", diagnostics)]
    else:
        adapters = [_adapter(item, f"lora[{index}]", diagnostics) for index, item in enumerate(node.value)]
    return [adapter for adapter in adapters if adapter is not None]


def extra(node: Node, diagnostics: Diagnostics) -> dict[str, Any] | None:
    """Return other keywords of the pipeline's call: an object whose keys are Python names and no fields."""
    if not isinstance(node.value, tuple):
        error = rules.unexpected(node.value, 'an object, such as {"eta": 0.5}')
        diagnostics.append(error.at("extra", node.offset))
        return None
    for member in node.value:
        name, offset = quote(member.key), member.offset
        if member.key in FIELDS:
            cause = f"{name} is a field of the request"
            diagnostics.append(Diagnostic(cause, "move it out of extra", "extra", offset=offset))
        elif not member.key.isidentifier():
            diagnostics.append(Diagnostic(f"{name} is no keyword", "use letters, digits and _", "extra", offset=offset))
    keywords: dict[str, Any] = _plain_value(node, "extra", diagnostics)
    return keywords


def meta(node: Node, diagnostics: Diagnostics) -> dict[str, Any] | None:
    """Return what the user keeps about a request: an object of any keys, which does not change what is rendered."""
    if not isinstance(node.value, tuple):
        error = rules.unexpected(node.value, 'an object, such as {"category": "animals"}')
        diagnostics.append(error.at(META, node.offset))
        return None
    kept: dict[str, Any] = _plain_value(node, META, diagnostics)
    return kept


NESTED: Mapping[str, Callable[[Node, Diagnostics], Any]] = {
    "image": image,
    "lora": lora,
    EXTRA: extra,
    META: meta,
}
"""The rules of fields that may hold a list or an object, each item of which is checked and located on its own."""


def _adapter(node: Node, name: str, diagnostics: Diagnostics) -> Adapter | None:
    if isinstance(node.value, str):
        file = apply_rule(rules.path, node, name, diagnostics)
        return None if file is None else Adapter(path=file)
    if not isinstance(node.value, tuple):
        error = rules.unexpected(node.value, 'a path or {"path": ..., "weight": ...}')
        diagnostics.append(error.at(name, node.offset))
        return None
    values: dict[str, Any] = {}
    for key, member in _unique_members(node.value, name, diagnostics).items():
        if key not in _ADAPTER_RULES:
            cause = f"unknown field {quote(key)}"
            diagnostics.append(Diagnostic(cause, "known: path, weight", name, offset=member.offset))
        elif member.node.value is not None:
            values[key] = apply_rule(_ADAPTER_RULES[key], member.node, f"{name}.{key}", diagnostics)
    if "path" not in values:
        remedy = "add the file, folder or hub id of the adapter"
        diagnostics.append(Diagnostic("has no path", remedy, name, offset=node.offset))
        return None
    return None if None in values.values() else Adapter(**values)


def _plain_value(node: Node, name: str, diagnostics: Diagnostics) -> Any:
    """Return the plain Python value of any JSON value; report equal keys and numbers that cannot be held."""
    value = node.value
    if isinstance(value, tuple):
        members = _unique_members(value, name, diagnostics)
        for member in value:
            apply_rule(rules.text, Node(member.offset, member.key), name, diagnostics)
        return {
            key: _plain_value(member.node, f"{name}.{quote(key, 30)[1:-1]}", diagnostics)
            for key, member in members.items()
        }
    if isinstance(value, list):
        return [_plain_value(item, f"{name}[{index}]", diagnostics) for index, item in enumerate(value)]
    if isinstance(value, str):
        return apply_rule(rules.text, node, name, diagnostics)
    if isinstance(value, Diagnostic):
        error = rules.unexpected(value, "text, a finite number, true, false, null, a list or an object")
        diagnostics.append(error.at(name, node.offset))
    elif isinstance(value, int) and not _INT64_MIN <= value <= _UINT64_MAX:
        remedy = "a whole number must fit 64 bits"
        diagnostics.append(Diagnostic(f"{value} is too large", remedy, name, offset=node.offset))
    return value


def _unique_members(members: tuple[Member, ...], name: str, diagnostics: Diagnostics) -> dict[str, Member]:
    """Return the members by key, the first of equal keys; report the others."""
    unique: dict[str, Member] = {}
    for member in members:
        if member.key in unique:
            cause = f"{quote(member.key)} is given twice"
            diagnostics.append(Diagnostic(cause, "keep one", name, offset=member.offset))
        unique.setdefault(member.key, member)
    return unique


_ADAPTER_RULES: Mapping[str, rules.Rule] = {"path": rules.path, "weight": rules.real()}

_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1
"""Whole numbers outside do not fit a message between processes."""
