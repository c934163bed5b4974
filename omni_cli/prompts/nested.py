"""The fields that hold lists and objects: `image`, `lora`, `extra`. Each item is judged, and located, on its own."""

from collections.abc import Callable
from typing import Any

from omni_cli.prompts.fields import FIELDS
from omni_cli.prompts.nodes import Fault, Member, Node, Odd
from omni_cli.prompts.rules import Unfit, describe, path, real, text
from omni_cli.prompts.shown import quoted
from omni_cli.request import Adapter

Faults = list[Fault]

_ADAPTER_RULES: dict[str, Callable[[object], Any]] = {"path": path, "weight": real()}

_INT64, _UINT64 = -(2**63), 2**64 - 1
"""Whole numbers outside do not fit a message between processes."""


def image(node: Node, faults: Faults) -> str | list[str] | None:
    """A path, or a list of at least one."""
    if not isinstance(node.value, list):
        one: str | None = _judged(path, node, "image", faults)
        return one
    if not node.value:
        faults.append(Fault(node.at, "image", "is an empty list", "give a path or a list of paths"))
    paths = [_judged(path, item, f"image[{index}]", faults) for index, item in enumerate(node.value)]
    return [name for name in paths if name is not None]


def lora(node: Node, faults: Faults) -> list[Adapter]:
    """A path, an object of `path` and `weight`, or a list of either. An empty list asks for none."""
    if not isinstance(node.value, list):
        adapters = [_adapter(node, "lora", faults)]
    else:
        adapters = [_adapter(item, f"lora[{index}]", faults) for index, item in enumerate(node.value)]
    return [one for one in adapters if one is not None]


def extra(node: Node, faults: Faults) -> dict[str, Any] | None:
    """Other keywords of the pipeline's call: an object whose names are Python names that no field of ours has."""
    if not isinstance(node.value, tuple):
        faults.append(Fault(node.at, "extra", describe(node.value), 'give an object, such as {"eta": 0.5}'))
        return None
    for member in node.value:
        if member.key in FIELDS:
            faults.append(
                Fault(member.at, "extra", f"{quoted(member.key)} is a field of the request", "say it beside extra")
            )
        elif not member.key.isidentifier():
            faults.append(Fault(member.at, "extra", f"{quoted(member.key)} is no keyword", "use letters, digits and _"))
    plain: dict[str, Any] = _plain(node, "extra", faults)
    return plain


def _adapter(node: Node, name: str, faults: Faults) -> Adapter | None:
    if isinstance(node.value, str):
        where = _judged(path, node, name, faults)
        return None if where is None else Adapter(path=where)
    if not isinstance(node.value, tuple):
        faults.append(Fault(node.at, name, describe(node.value), 'give a path or {"path": ..., "weight": ...}'))
        return None
    members = _unique(node.value, name, faults)
    values: dict[str, Any] = {}
    for key, member in members.items():
        if key not in _ADAPTER_RULES:
            faults.append(Fault(member.at, name, f"unknown field {quoted(key)}", "known: path, weight"))
        elif member.node.value is not None:
            values[key] = _judged(_ADAPTER_RULES[key], member.node, f"{name}.{key}", faults)
    if "path" not in values:
        faults.append(Fault(node.at, name, "has no path", "add the file, folder or hub id of the adapter"))
        return None
    return None if None in values.values() else Adapter(**values)


def _plain(node: Node, name: str, faults: Faults) -> Any:
    """The plain Python value of any JSON value; numbers that cannot be held and equal names are faults."""
    value = node.value
    if isinstance(value, tuple):
        members = _unique(value, name, faults)
        for member in value:
            _judged(text, Node(member.at, member.key), name, faults)
        return {key: _plain(member.node, f"{name}.{quoted(key, 30)[1:-1]}", faults) for key, member in members.items()}
    if isinstance(value, list):
        return [_plain(item, f"{name}[{index}]", faults) for index, item in enumerate(value)]
    if isinstance(value, str):
        return _judged(text, node, name, faults)
    if isinstance(value, Odd):
        faults.append(
            Fault(node.at, name, describe(value), "give text, a finite number, true, false, null, a list or an object")
        )
    elif isinstance(value, int) and not _INT64 <= value <= _UINT64:
        faults.append(Fault(node.at, name, f"{value} is too large", "a whole number must fit 64 bits"))
    return value


def _unique(members: tuple[Member, ...], name: str, faults: Faults) -> dict[str, Member]:
    """The members by name; a second one of the same name is a fault."""
    found: dict[str, Member] = {}
    for member in members:
        if member.key in found:
            faults.append(Fault(member.at, name, f"{quoted(member.key)} is given twice", "keep one"))
        found.setdefault(member.key, member)
    return found


def _judged(rule: Callable[[object], Any], node: Node, name: str, faults: Faults) -> Any:
    try:
        return rule(node.value)
    except Unfit as unfit:
        faults.append(Fault(node.at, name, unfit.message, unfit.allowed))
        return None
