"""Models that ship their own `generate_image`: what their signature does not tell. Data in `remotes.toml`."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from omni_cli.media import Kind
from omni_cli.models.cards import Card, SizeRule

_MODEL_FILE = Path(__file__).with_name("remotes.toml")

_ANY_SIZE = SizeRule(multiple=1)


class RemoteCodeModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model class: its `card`, and the keywords `takes` that its call forwards through `**kwargs`."""

    card: Card
    takes: tuple[str, ...] = ()


def remote_code_model(name: str) -> RemoteCodeModel:
    """Return what is known of the model class `name`; of an unknown class, only that it makes images."""
    raw = _model_table().get(name)
    if raw is None:
        return RemoteCodeModel(card=Card(pipeline=name, kind=Kind.IMAGE, sizes=_ANY_SIZE))
    card = {"pipeline": name, "kind": Kind.IMAGE, **{key: value for key, value in raw.items() if key != "takes"}}
    return RemoteCodeModel(card=msgspec.convert(card, Card), takes=tuple(raw.get("takes", ())))


@cache
def _model_table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(_MODEL_FILE.read_text(encoding="utf-8"))
