"""Models that bring their own `generate_image`: what their signature does not tell. Data in `remotes.toml`."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from omni_cli.media import Kind
from omni_cli.models.cards import Card, SizeRule

DATA = Path(__file__).with_name("remotes.toml")

UNKNOWN_SIZES = SizeRule(multiple=1)


class Remote(msgspec.Struct, frozen=True, kw_only=True):
    """`takes`: keywords that the call hands on through its `**kwargs`. `card`: as of a pipeline."""

    card: Card
    takes: tuple[str, ...] = ()


def remote_of(name: str) -> Remote:
    """What is known of the model class `name`; of any other, only that it makes images."""
    raw = _data().get(name)
    if raw is None:
        return Remote(card=Card(pipeline=name, kind=Kind.IMAGE, sizes=UNKNOWN_SIZES))
    takes = raw.get("takes", ())
    card = {"pipeline": name, "kind": Kind.IMAGE, **{key: value for key, value in raw.items() if key != "takes"}}
    return Remote(card=msgspec.convert(card, Card), takes=tuple(takes))


@cache
def _data() -> dict[str, dict[str, Any]]:
    return tomllib.loads(DATA.read_text(encoding="utf-8"))
