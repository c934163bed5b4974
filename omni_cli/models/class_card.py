"""The card of a class that has none among the built-in cards, from its source and its model's configuration.

__call__ ── what it returns ──> kind        ── its parameters ──> defaults        VAE, denoiser ──> size rule
"""

import ast
import re
from typing import Any

from omni_cli.errors import ModelLoadError
from omni_cli.media import Kind
from omni_cli.models.class_source import ClassSource, package_classes
from omni_cli.models.class_values import Instance
from omni_cli.models.model_defaults import CallValues, inferred_sizes
from omni_cli.models.output_fields import field_kind, returned_fields

FALLBACK_FPS = 16.0
"""Frames per second of a video pipeline that names no rate: the commonest one among the cards."""

_FRAMES = frozenset({"num_frames", "video_length", "frames"})


def class_card(instance: Instance, values: CallValues) -> dict[str, Any]:
    """Return the raw card of the class of `instance`, whose `__call__` uses `values`.

    Raises ModelLoadError for a class that makes no media.
    """
    source = instance.source
    call = None if source is None else source.method("__call__")
    assert source is not None
    assert call is not None
    parameters = [a.arg for a in (*call.args.posonlyargs, *call.args.args, *call.args.kwonlyargs) if a.arg != "self"]
    kind = _kind(source, set(parameters))
    defaults = values.signature | values.computed
    if kind is Kind.VIDEO:
        defaults["fps"] = float(defaults.get("fps") or _example_fps(source) or FALLBACK_FPS)
    kept = set(defaults) - ({"fps"} if kind is Kind.IMAGE else set())
    if kind is Kind.AUDIO:
        kept -= {"height", "width", "num_frames", "fps"}
    return {
        "kind": kind,
        "sizes": {} if kind is Kind.AUDIO else inferred_sizes(instance, values.divisors),
        "defaults": {name: value for name, value in defaults.items() if name in kept},
        "output_type": "pt" if kind is Kind.AUDIO else _output_type(source),
        "call": {"use_resolution_binning": False} if "use_resolution_binning" in parameters else {},  # it rescales
        "parameters": parameters,
    }


def _kind(source: ClassSource, parameters: set[str]) -> Kind:
    """Return what the first field of the output holds; for an output that the source does not tell, by `parameters`.

    Raises ModelLoadError if that is no media.
    """
    fields = returned_fields(source)
    if not fields and any(field_kind(name) is Kind.AUDIO for name in parameters):
        return Kind.AUDIO
    first = fields[0] if fields else ""
    kind = field_kind(first)
    if kind is None:
        raise ModelLoadError(_no_media(source, first))
    # A clip may come as its pictures.
    return Kind.VIDEO if kind is Kind.IMAGE and _FRAMES & parameters else kind


def _no_media(source: ClassSource, field: str) -> str:
    """Return the error for a class whose output starts with `field`."""
    pipeline = source.definition.name
    if "embed" not in field:
        return f"{pipeline} makes text, not images, video or sound"
    combined = [name for name in package_classes(source) if name.endswith("CombinedPipeline")]
    best = min(combined, key=len, default=None)
    hint = f"use the combined pipeline {best}" if best else "render with the pipeline that takes them"
    return f"{pipeline} makes embeddings for another pipeline, not images, video or sound; {hint}"


def _example_fps(source: ClassSource) -> str | None:
    """Return the rate at which the class's own example writes its video; None if it names none."""
    match source.constants.get("EXAMPLE_DOC_STRING"):
        case ast.Constant(value=str(text)) if found := re.search(r"\bfps=(\d+(?:\.\d+)?)\b", text):
            return found[1]
    return None


def _output_type(source: ClassSource) -> str:
    """Return "device" for a class that hands its output to a processor of its own, else "np".

    A class that checks `output_type` against a list rejects "device" before its processor is called.
    """
    text = ast.unparse(source.definition)
    init = source.method("__init__")
    has_processor = init is not None and any(name in ast.unparse(init) for name in _PROCESSORS)
    return "device" if has_processor and "output_type not in" not in text else "np"


_PROCESSORS = ("self.image_processor =", "self.video_processor =")
