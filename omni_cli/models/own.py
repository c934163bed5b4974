"""Cards that the user brings: a TOML file of the same form as `pipelines.toml`, laid over what is known of a class.

known card, or one derived from the class  <──layered──  [cards.ClassName] of --cards FILE
"""

import difflib
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from omni_cli.errors import UsageError
from omni_cli.media import Kind
from omni_cli.models.cards import Card, SizeRule
from omni_cli.request import GenerationRequest

_TABLES = {"sizes": SizeRule, "defaults": GenerationRequest}
_FIXED = ("pipeline", "parameters")
"""What a class says of itself."""


@cache
def own_cards(path: str) -> dict[str, dict[str, Any]]:
    """The raw cards of the file at `path`, by class name; read once.

    Raises UsageError with every fault of the file: what cannot be read, what no card has, and values of another type.
    """
    try:
        content = tomllib.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--cards {path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"--cards {path}: {error}") from error
    cards = content.pop("cards", None)
    faults = [f"{key}: no such table; cards stand under [cards.ClassName]" for key in content]
    if not isinstance(cards, dict) or not cards:
        raise UsageError(f"--cards {path}: has no [cards.ClassName] table")
    for name, raw in cards.items():
        faults += [f"cards.{name}{fault}" for fault in _faults(name, raw)]
    if faults:
        raise UsageError("\n".join(f"--cards {path}: {fault}" for fault in faults))
    return cards


def own_card(pipeline: str, path: str | None) -> dict[str, Any]:
    """What the user's file says of the class `pipeline`; empty if nothing."""
    return own_cards(path).get(pipeline, {}) if path is not None else {}


def layered(raw: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`raw` with the values of `over`; tables are merged key by key."""
    result = dict(raw)
    for key, value in over.items():
        result[key] = {**result.get(key, {}), **value} if isinstance(value, dict) else value
    return result


def _faults(name: str, raw: Any) -> list[str]:
    """What is wrong with one raw card, each with its place behind the card's name."""
    if not isinstance(raw, dict):
        return [": must be a table"]
    allowed = [field for field in Card.__struct_fields__ if field not in _FIXED]
    faults = [_unknown("", key, allowed) for key in raw if key not in allowed]
    for field, struct in _TABLES.items():
        if isinstance(raw.get(field), dict):
            known = struct.__struct_fields__
            faults += [_unknown(f".{field}", key, known) for key in raw[field] if key not in known]
    try:
        msgspec.convert({"kind": Kind.IMAGE, **raw, "pipeline": name}, Card)
    except msgspec.ValidationError as error:
        if not faults:
            faults.append(f": {error}")
    return faults


def _unknown(place: str, key: str, allowed: list[str] | tuple[str, ...]) -> str:
    near = difflib.get_close_matches(key, allowed, 1)
    advice = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(allowed)}"
    return f"{place}: unknown key {key!r}; {advice}"
