"""The card of a loaded pipeline: that of its class, or one inferred from the source of a class outside of diffusers."""

import inspect
from typing import Any

import msgspec
from msgspec.structs import replace

from omni_cli.config import ModelConfig
from omni_cli.errors import ModelLoadError
from omni_cli.models.cards import Card
from omni_cli.models.class_card import class_card
from omni_cli.models.class_source import ClassSource, class_in_module
from omni_cli.models.class_values import Instance
from omni_cli.models.model_defaults import call_values
from omni_cli.models.registry import configured_folder, known_card, override_card
from omni_cli.models.user_cards import folder_card, merge_cards, user_card
from omni_cli.worker.pipeline.device_output_processor import DEVICE


def infer_card(pipeline: Any, model: ModelConfig, has_device_output: bool) -> Card:
    """Return the card of `pipeline`. `has_device_output`: it has a wrapped output processor.

    Raises ModelLoadError for a class that makes no media, or whose source cannot be read.
    """
    card = registered_card(type(pipeline), model)
    if card is None:
        instance = _instance(pipeline)
        raw = {"pipeline": instance.name, **class_card(instance, call_values(instance))}
        card = override_card(msgspec.convert(raw, Card), model)
    return card if has_device_output or card.output_type != DEVICE else replace(card, output_type="np")


def registered_card(pipeline: type, model: ModelConfig) -> Card | None:
    """Return the card of a class of diffusers with the parameters of its `__call__`; None for another class.

    Raises ModelLoadError for a class that makes no media.
    """
    card = known_card(pipeline.__name__, model)
    return None if card is None else replace(card, parameters=tuple(_parameters(pipeline)))


def card_processors(pipeline: type, model: ModelConfig) -> tuple[tuple[str, ...], tuple[float, float] | None]:
    """Return the output processor attributes that the card names, and the value range (black, white) it declares."""
    card = known_card(pipeline.__name__, model)
    if card is not None:
        return card.processors, card.value_range
    own = folder_card(pipeline.__name__, configured_folder(model))
    raw = merge_cards(own, user_card(pipeline.__name__, model.cards))
    value_range = raw.get("value_range")
    return tuple(raw.get("processors", ())), None if value_range is None else (value_range[0], value_range[1])


def _parameters(pipeline: type) -> list[str]:
    """Return the names of the keyword parameters of the pipeline's `__call__`."""
    parameters = inspect.signature(pipeline.__call__).parameters
    return [name for name, p in parameters.items() if name != "self" and p.kind is not p.VAR_KEYWORD]


def _instance(pipeline: Any) -> Instance:
    """Return the class of `pipeline` with its loaded components."""
    parts = {
        name: None if part is None else Instance(type(part).__name__, _config(part))
        for name, part in pipeline.components.items()
    }
    return Instance(type(pipeline).__name__, _config(pipeline), parts, _source(type(pipeline)))


def _config(thing: Any) -> dict[str, Any] | None:
    config = getattr(thing, "config", None)
    return dict(config) if isinstance(config, dict) else None


def _source(pipeline: type) -> ClassSource:
    """Return the source of a class outside of diffusers. Raises ModelLoadError if it cannot be read."""
    module = inspect.getmodule(pipeline)
    try:
        text = inspect.getsource(module) if module is not None else ""
    except (OSError, TypeError):
        text = ""
    source = class_in_module(text, pipeline.__name__)
    if source is None:
        raise ModelLoadError(f"the source of the pipeline class {pipeline.__name__} cannot be read")
    return source
