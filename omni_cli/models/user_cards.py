"""Cards of users and of models: TOML files in the form of `pipelines.toml`, which override the cards of classes.

--cards FILE: cards of the user.        omni-gen.toml in a model's folder: cards of the model.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from omni_cli.errors import ModelLoadError, UsageError
from omni_cli.media import Kind
from omni_cli.models.cards import Card, SizeRule
from omni_cli.request import GenerationRequest
from omni_cli.storage.user_path import expand_user
from omni_cli.text import did_you_mean

_TABLES = {"sizes": SizeRule, "defaults": GenerationRequest}
_NOT_OVERRIDABLE = ("pipeline", "parameters")
"""Fields that a user card may not give."""


FOLDER_CARDS = "omni-gen.toml"
"""File in a model's folder with cards for it, in the form of a user's file."""

MAX_BYTES = 1 << 20
"""The largest file of cards: a repository may hold anything."""


@cache
def user_cards(path: str) -> dict[str, dict[str, Any]]:
    """Return the raw cards of the file at `path`, by class name.

    Raises UsageError with every fault of the file: unreadable, unknown keys, and values of a wrong type.
    """
    cards, faults = _read_cards(expand_user(path))
    if faults:
        raise UsageError("\n".join(f"--cards {path}: {fault}" for fault in faults))
    return cards


def folder_card(pipeline: str, folder: Path | None) -> dict[str, Any]:
    """Return the raw card of the class `pipeline` in the model's `folder`; empty if there is none.

    Raises ModelLoadError with every fault of the file.
    """
    if folder is None or not (folder / FOLDER_CARDS).is_file():
        return {}
    cards, faults = _read_cards(folder / FOLDER_CARDS)
    if faults:
        raise ModelLoadError("; ".join(f"{FOLDER_CARDS}: {fault}" for fault in faults))
    return cards.get(pipeline, {})


def _read_cards(path: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the raw cards of the file at `path` by class name, and every fault of it."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1).decode("utf-8")
        if len(text) > MAX_BYTES:
            return {}, [f"has more than {MAX_BYTES >> 20} MiB"]
        content = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        return {}, [f"cannot be read: {error}"]
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return {}, [str(error)]
    cards = content.pop("cards", None)
    if not isinstance(cards, dict) or not cards:
        return {}, ["has no [cards.ClassName] table"]
    faults = [f"{key}: no such table; put cards under [cards.ClassName]" for key in content]
    for name, raw in cards.items():
        faults += [f"cards.{name}{fault}" for fault in _card_faults(name, raw)]
    return cards, faults


def user_card(pipeline: str, path: str | None) -> dict[str, Any]:
    """Return the raw card of the class `pipeline` in the file at `path`; empty if there is none."""
    return user_cards(path).get(pipeline, {}) if path is not None else {}


def merge_cards(raw: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Return the raw card `raw` with the values of `override`; tables are merged key by key."""
    result = dict(raw)
    for key, value in override.items():
        result[key] = {**result.get(key, {}), **value} if isinstance(value, dict) else value
    return result


def _card_faults(name: str, raw: Any) -> list[str]:
    """Return what is wrong with one raw card; each fault starts with its place behind the card's name."""
    if not isinstance(raw, dict):
        return [": must be a table"]
    allowed = [field for field in Card.__struct_fields__ if field not in _NOT_OVERRIDABLE]
    faults = [_unknown_key("", key, allowed) for key in raw if key not in allowed]
    for field, struct in _TABLES.items():
        if isinstance(raw.get(field), dict):
            known = struct.__struct_fields__
            faults += [_unknown_key(f".{field}", key, known) for key in raw[field] if key not in known]
    try:
        msgspec.convert({"kind": Kind.IMAGE, **raw, "pipeline": name}, Card)
    except msgspec.ValidationError as error:
        if not faults:
            faults.append(f": {error}")
    return faults


def _unknown_key(place: str, key: str, allowed: list[str] | tuple[str, ...]) -> str:
    advice = did_you_mean(key, allowed, f"known: {', '.join(allowed)}")
    return f"{place}: unknown key {key!r}; {advice}"
