"""What a request leaves open and its inputs tell: the size of the picture, the rate of the clip.

The size keeps the aspect of the picture and the area that the pipeline was made for, both sides rounded down to what the
pipeline takes unchanged: the rule of diffusers' own image-to-video examples (Wan: `max_area`). Where the card gives no
size, the picture's own counts, rounded down.
"""

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from omni_cli.media import Kind
from omni_cli.models.cards import Card
from omni_cli.planner import probes
from omni_cli.request import GenerationRequest

_Look = probes.Look | None


def derived(full: GenerationRequest, said: GenerationRequest, card: Card) -> GenerationRequest:
    """`full` with height and width where `said` says neither, and fps where it does not, as the inputs tell them.

    Inputs that cannot be read tell nothing; a check reports them.
    """
    picture = said.image[0] if isinstance(said.image, list) and said.image else said.image
    source = picture if isinstance(picture, str) else said.video
    sized = {"height", "width"} <= set(card.parameters)
    wants_size = sized and said.height is None and said.width is None
    wants_rate = said.video is not None and said.fps is None and card.kind is Kind.VIDEO
    if source is None or not (wants_size or wants_rate):
        return full
    found: dict[str, Any] = {}
    if wants_size and (look := _look(source, source == said.video)) is not None:
        found["height"], found["width"] = _sides(look, card)
    if wants_rate and (look := _look(said.video or "", True)) is not None and look.fps:
        found["fps"] = round(look.fps, 3)
    return msgspec.structs.replace(full, **found)


def _sides(look: probes.Look, card: Card) -> tuple[int, int]:
    """Height and width."""
    multiple, wanted = card.sizes.multiple, card.defaults
    area = (wanted.height or 0) * (wanted.width or 0) or look.height * look.width
    aspect = look.height / look.width
    height, width = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
    return max(multiple, height // multiple * multiple), max(multiple, width // multiple * multiple)


def _look(path: str, is_video: bool) -> _Look:
    if not Path(path).is_absolute():
        return None  # a URL
    try:
        found = Path(path).stat()
        return _looked(path, is_video, (found.st_size, found.st_mtime_ns, found.st_ino))
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=4096)
def _looked(path: str, is_video: bool, _identity: tuple[int, ...]) -> _Look:
    try:
        return probes.video(path) if is_video else probes.image(path)
    except (probes.Unusable, OSError):
        return None
