"""From the texts of the tuning flags to `Tuning`, and adapters."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from omni_cli.config import Tuning
from omni_cli.errors import UsageError
from omni_cli.request import Adapter


def tuning(given: Mapping[str, Any]) -> Tuning:
    """The tuning from the values of `run`'s parameters, by name. Raises UsageError with all that is wrong."""
    problems: list[str] = []
    values = {name: given[name] for name in Tuning.__struct_fields__ if name in given}
    for name in ("scheduler_config", "cache_config", "quantization_config"):
        values[name] = _mapping(given[name], f"--{name.replace('_', '-')}", problems)
    values["components"] = _pairs(given["component"] or (), problems)
    values["quantize"] = tuple(part.strip() for part in (given["quantize"] or "").split(",") if part.strip())
    if problems:
        raise UsageError("\n".join(problems))
    return msgspec.convert(values, Tuning)


def adapters(texts: Sequence[str] | None) -> list[Adapter] | None:
    """`style.safetensors:0.8` as an adapter of that weight; without one the weight is 1. None if none is given."""
    return [_adapter(text) for text in texts] if texts else None


def _adapter(text: str) -> Adapter:
    path, colon, weight = text.rpartition(":")
    if not colon:
        path, weight = text, "1"
    try:
        value = float(weight)
    except ValueError:
        value = math.nan
    if not path or not math.isfinite(value):
        raise UsageError(f"--lora {text}: must be PATH or PATH:WEIGHT, such as style.safetensors:0.8")
    return Adapter(path=path, weight=value)


def _mapping(text: str | None, flag: str, problems: list[str]) -> dict[str, Any]:
    try:
        return {} if text is None else msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        problems.append(f'{flag}: {error}; it takes a JSON object such as {{"threshold": 0.1}}')
        return {}


def _pairs(texts: Sequence[str], problems: list[str]) -> dict[str, str]:
    """`NAME=FILE` texts by name."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not name or not equals or not file:
            problems.append(f"--component {text}: must be NAME=FILE, such as transformer=model.gguf")
        elif name in found:
            problems.append(f"--component {text}: {name} is given twice")
        found[name] = file
    return found
