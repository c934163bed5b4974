"""The length of a clip in seconds: it becomes the number of frames that the pipeline renders and that comes nearest."""

from msgspec.structs import replace

from omni_cli.errors import DiagnosticError
from omni_cli.media import Kind
from omni_cli.models.cards import Card
from omni_cli.prompts.rules import MAX_FRAMES
from omni_cli.request import GenerationRequest


def overridden_length(defaults: GenerationRequest, request: GenerationRequest) -> GenerationRequest:
    """Return `defaults` without the length that `request` gives in the other unit."""
    if request.seconds is not None and defaults.num_frames is not None:
        return replace(defaults, num_frames=None)
    if request.num_frames is not None and defaults.seconds is not None:
        return replace(defaults, seconds=None)
    return defaults


def with_frames(explicit: GenerationRequest, fps: float | None, card: Card) -> GenerationRequest:
    """Return `explicit` with num_frames for its seconds, at `fps` frames per second.

    Raises DiagnosticError if the frames are given as well, or cannot be told.
    """
    seconds = explicit.seconds
    if seconds is None:
        return explicit
    if explicit.num_frames is not None:
        raise DiagnosticError("and num_frames are both given", "keep one", field="seconds")
    if card.kind is not Kind.VIDEO:
        raise DiagnosticError(f"{seconds:g}: {card.pipeline} makes no video", "leave it out", field="seconds")
    if fps is None:
        raise DiagnosticError("the frames per second are not known", "give fps, or num_frames", field="seconds")
    wanted = seconds * fps
    if wanted > MAX_FRAMES:
        raise DiagnosticError(f"{seconds:g} s at {fps:g} fps are more than {MAX_FRAMES:,} frames", "", field="seconds")
    frames = min(card.sizes.nearest_frames(max(1, round(wanted))), key=lambda count: abs(count - wanted))
    return replace(explicit, seconds=None, num_frames=frames)
