"""Defaults that input files give: the size of a picture and the rate of a clip.

The size keeps the picture's aspect and the area that the pipeline was made for, both sides rounded down to the card's
multiple: the rule of diffusers' own image-to-video examples (Wan: `max_area`). Where the card gives no size, the
picture's own is rounded down.
"""

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from omni_cli.errors import DiagnosticError
from omni_cli.media import Kind
from omni_cli.models.cards import Card
from omni_cli.planner.checks import probes
from omni_cli.request import GenerationRequest
from omni_cli.storage.filesystem import FileVersion, file_version


def size_from_inputs(full: GenerationRequest, explicit: GenerationRequest, card: Card) -> GenerationRequest:
    """Return `full` with the inputs' height and width, and fps, where `explicit` gives none.

    Unreadable inputs give nothing; a check reports them.
    """
    picture = explicit.image[0] if isinstance(explicit.image, list) and explicit.image else explicit.image
    source = picture if isinstance(picture, str) else explicit.video
    takes_size = {"height", "width"} <= set(card.parameters)
    needs_size = takes_size and explicit.height is None and explicit.width is None
    needs_rate = explicit.video is not None and explicit.fps is None and card.kind is Kind.VIDEO
    if source is None or not (needs_size or needs_rate):
        return full
    defaults: dict[str, Any] = {}
    if needs_size and (probed := _probe(source, source == explicit.video)) is not None:
        defaults["height"], defaults["width"] = _output_size(probed, card)
    if needs_rate and (probed := _probe(explicit.video or "", True)) is not None and probed.fps:
        defaults["fps"] = round(probed.fps, 3)
    return msgspec.structs.replace(full, **defaults)


def _output_size(source: probes.ProbedInput, card: Card) -> tuple[int, int]:
    """Return height and width in pixels."""
    multiple, defaults = card.sizes.multiple, card.defaults
    area = (defaults.height or 0) * (defaults.width or 0) or source.height * source.width
    aspect = source.height / source.width
    height, width = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
    return max(multiple, height // multiple * multiple), max(multiple, width // multiple * multiple)


def _probe(path: str, is_video: bool) -> probes.ProbedInput | None:
    if not Path(path).is_absolute():
        return None  # a URL
    try:
        return _probe_version(path, is_video, file_version(Path(path)))
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=4096)
def _probe_version(path: str, is_video: bool, _version: FileVersion) -> probes.ProbedInput | None:
    try:
        return probes.video(path) if is_video else probes.image(path)
    except (DiagnosticError, OSError):
        return None
