"""A card for a loaded pipeline: the registry's, completed from the class, or one derived from it entirely."""

import inspect
import math
from typing import Any

import msgspec
from msgspec.structs import replace

from omni_cli.config import ModelConfig
from omni_cli.media import Kind
from omni_cli.models.cards import Card, SizeRule
from omni_cli.models.own import layered, own_card
from omni_cli.models.registry import card_for
from omni_cli.request import GenerationRequest
from omni_cli.worker.seam import DEVICE

FALLBACK_FPS = 16.0
"""Frames per second of a video pipeline that neither has a card nor takes a rate: the commonest rate among the cards."""

_SPATIAL = ("vae_scale_factor_spatial", "vae_spatial_compression_ratio", "vae_spatial_scale_factor", "vae_scale_factor")
_TEMPORAL = ("vae_scale_factor_temporal", "vae_temporal_compression_ratio", "vae_temporal_scale_factor")
_RATES = ("fps", "frame_rate")
_NUMBERS = ("num_inference_steps", "guidance_scale", "true_cfg_scale", "strength")


def card_of(pipeline: Any, model: ModelConfig, has_seam: bool) -> Card:
    """The card of `pipeline`; `has_seam` says that its output goes through a processor of ours."""
    known = known_card(type(pipeline), model)
    if known is not None:
        return known
    own = own_card(type(pipeline).__name__, model.cards)
    derived = msgspec.to_builtins(_derived(pipeline, has_seam))
    return msgspec.convert(layered(derived, own), Card)


def _derived(pipeline: Any, has_seam: bool) -> Card:
    """The card that the class and its parts tell."""
    parameters = tuple(parameters_of(type(pipeline)))
    kind = _kind(pipeline, parameters)
    return Card(
        pipeline=type(pipeline).__name__,
        kind=kind,
        sizes=_sizes(pipeline, kind),
        defaults=_defaults(pipeline, kind),
        output_type=_output_type(pipeline, kind, has_seam),
        parameters=parameters,
    )


def processors_of(pipeline: type, model: ModelConfig) -> tuple[tuple[str, ...], tuple[float, float] | None]:
    """What a card says of the class's output processors: attributes with names of their own, and their floats' range."""
    card = known_card(pipeline, model)
    raw = own_card(pipeline.__name__, model.cards)
    named, given = (card.processors, card.value_range) if card else (raw.get("processors", ()), raw.get("value_range"))
    return tuple(named), None if given is None else (given[0], given[1])


def known_card(pipeline: type, model: ModelConfig) -> Card | None:
    """The card of the pipeline class if it has one, with what its `__call__` takes; needs no weights."""
    known = card_for(pipeline.__name__, model)
    return None if known is None else replace(known, parameters=tuple(parameters_of(pipeline)))


def parameters_of(pipeline: type) -> dict[str, inspect.Parameter]:
    """Keywords of the pipeline's `__call__`, by name."""
    found = inspect.signature(pipeline.__call__).parameters
    return {name: p for name, p in found.items() if name != "self" and p.kind is not p.VAR_KEYWORD}


def _kind(pipeline: Any, parameters: tuple[str, ...]) -> Kind:
    if hasattr(pipeline, "video_processor") or {"num_frames", "video_length"} & set(parameters):
        return Kind.VIDEO
    if {"audio_length_in_s", "audio_end_in_s", "audio_duration"} & set(parameters):
        return Kind.AUDIO
    return Kind.IMAGE


def _first_number(thing: Any, names: tuple[str, ...]) -> int | None:
    """The first of these attributes that is a positive whole number."""
    values = (getattr(thing, name, None) for name in names)
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def _sizes(pipeline: Any, kind: Kind) -> SizeRule:
    """Sizes divide by the VAE's scale times the transformer's patch, and by what the processor would resize to."""
    scale = _first_number(pipeline, _SPATIAL) or 8
    model = getattr(pipeline, "transformer", None)
    patch = getattr(getattr(model, "config", None), "patch_size", 1)
    patch = patch[-1] if isinstance(patch, list | tuple) else patch
    multiple = scale * (patch if isinstance(patch, int) and patch > 0 else 1)
    processor = getattr(pipeline, "video_processor", None) or getattr(pipeline, "image_processor", None)
    resized = _first_number(getattr(processor, "config", None), ("vae_scale_factor",))
    multiple = math.lcm(multiple, resized or 1)
    step = _first_number(pipeline, _TEMPORAL) if kind is Kind.VIDEO else None
    return SizeRule(multiple=multiple, frame_step=step or 1, frame_offset=1 if step else 0)


def _defaults(pipeline: Any, kind: Kind) -> GenerationRequest:
    """Defaults of the signature; a size that it leaves open is the one that the model was made for."""
    defaults = {
        name: p.default for name, p in parameters_of(type(pipeline)).items() if isinstance(p.default, int | float)
    }
    own: dict[str, Any] = {name: defaults[name] for name in _NUMBERS if name in defaults}
    if kind is Kind.AUDIO:
        return GenerationRequest(**own)
    side = _side(pipeline)
    for name in {"height", "width"} & parameters_of(type(pipeline)).keys():
        own[name] = defaults.get(name) or getattr(pipeline, f"default_{name}", None) or side
    if kind is Kind.VIDEO:
        own["num_frames"] = defaults.get("num_frames") or getattr(pipeline, "default_frames", None)
        own["fps"] = float(next((defaults[name] for name in _RATES if name in defaults), FALLBACK_FPS))
    return GenerationRequest(**own)


def _side(pipeline: Any) -> int | None:
    """Side in pixels that the denoiser was made for, if it tells."""
    scale = _first_number(pipeline, _SPATIAL) or 8
    sample = _first_number(pipeline, ("default_sample_size",))
    for name in ("transformer", "unet"):
        sample = sample or _first_number(getattr(getattr(pipeline, name, None), "config", None), ("sample_size",))
    return sample * scale if sample else None


def _output_type(pipeline: Any, kind: Kind, has_seam: bool) -> str:
    """ "device" where the seam will see it; "np" for a pipeline that has none or checks the word against a list."""
    if kind is Kind.AUDIO:
        return "pt"
    source = inspect.getsource(type(pipeline))
    return DEVICE if has_seam and "output_type not in" not in source else "np"
