"""Resolve a request: its own values, then those of flags, then those of the pipeline's card.

row ── paths made absolute ── flags ──> explicit ── card's defaults ── sizes of its inputs ──> request ──> seeds
"""

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import msgspec

from omni_cli.config import RunConfig
from omni_cli.errors import Diagnostic
from omni_cli.inputs import with_absolute_paths
from omni_cli.media import Kind
from omni_cli.models.cards import Card
from omni_cli.models.keywords import NAMES
from omni_cli.planner.clip_length import overridden_length, with_frames
from omni_cli.planner.input_defaults import size_from_inputs
from omni_cli.planner.sanitize import output_extension
from omni_cli.request import MAX_SEED, GenerationRequest
from omni_cli.writers.formats import LATENT, Format, default_format, has_quality, resolve_format

_LAYERED_FIELDS = tuple(name for name in GenerationRequest.__struct_fields__ if name not in ("id", "output", "extra"))

ENCODE_ERRORS = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
"""Raised by msgspec for a request with a value that no message can carry, as a call of the Python API may give."""


class SourcedRequest(Protocol):
    """A request and its place in its source: a prompt file, a call of the Python API, the benchmark's flags."""

    @property
    def request(self) -> GenerationRequest:
        """The request as it was written."""

    @property
    def index(self) -> int:
        """The number of its row, from 0."""

    @property
    def line(self) -> int:
        """The line where its row starts, from 1."""

    def problem(self, field: str, cause: str, remedy: str = "") -> Diagnostic:
        """Return a diagnostic of `field`, located where the source gives the field."""


def field_problem(row: SourcedRequest, field: str, cause: str, remedy: str = "") -> Diagnostic:
    """Return a diagnostic of `field`, which `row` or else a flag gives: a flag is named instead of a place."""
    if getattr(row.request, field) is not None:
        return row.problem(field, cause, remedy)
    return Diagnostic(cause, remedy, flag_of(field))


def flag_of(field: str) -> str:
    """Return the flag that gives requests a default for `field`."""
    return f"--{field.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A request with everything filled in that can be known before loading.

    `explicit` is what the request and the flags say, without the card's defaults. `request` has id, format and
    num_outputs; sizes and frames where someone gives them; fps where the output is a video and someone gives it. Input
    paths are absolute.
    """

    explicit: GenerationRequest
    request: GenerationRequest
    kind: Kind
    form: Format


def resolve(
    request: GenerationRequest, config: RunConfig, card: Card, base: Path, model: str | None = None
) -> Resolved:
    """Layer `request` (input paths relative to `base`) over the flags (relative to the working folder) and the card.

    `model` is the key of the request's model (see `models`).

    Raises UsageError for an unknown format, DiagnosticError for a file extension that no writer has and for a length in
    seconds that is no number of frames.
    """
    written = _with_fields_of_extra(with_absolute_paths(request, base), card)
    defaults = _with_fields_of_extra(with_absolute_paths(config.defaults, Path()), card)
    explicit = _layered(written, overridden_length(defaults, written))
    explicit = with_frames(explicit, card.defaults.fps if explicit.fps is None else explicit.fps, card)
    full = size_from_inputs(_layered(explicit, card.defaults), explicit, card)
    # An image pipeline asked for a single frame makes what it makes anyway.
    frames = None if card.kind is Kind.IMAGE and full.num_frames == 1 else full.num_frames
    kind = Kind.IMAGE if card.kind is Kind.VIDEO and frames == 1 else card.kind
    form = _format(request, config, kind)
    has_frames_between = kind is Kind.VIDEO and form.name != LATENT and full.interpolate != 1
    return Resolved(
        explicit,
        msgspec.structs.replace(
            full,
            model=model,
            output=request.output,
            num_frames=frames,
            num_outputs=1 if full.num_outputs is None else full.num_outputs,
            fps=full.fps if kind is Kind.VIDEO else None,
            interpolate=full.interpolate if has_frames_between else None,
            quality=full.quality if has_quality(form) else None,
            format=form.name,
        ),
        kind,
        form,
    )


def _with_fields_of_extra(request: GenerationRequest, card: Card) -> GenerationRequest:
    """Return `request` with numbers that `extra` gives in the pipeline's own words (`frames`) in their fields."""
    changes: dict[str, Any] = {}
    extra = dict(request.extra or {})
    for field, number in (("num_frames", int), ("fps", float)):
        words = [word for word in NAMES[field] if word != field and word in extra and word in card.parameters]
        value = extra[words[0]] if words and getattr(request, field) is None else None
        if isinstance(value, int | number) and not isinstance(value, bool) and value > 0:
            changes[field] = number(value)
            del extra[words[0]]
    return msgspec.structs.replace(request, **changes, extra=extra or None) if changes else request


def sample_seeds(seed: int | None, count: int, base_seed: int, request_id: str) -> tuple[int, ...]:
    """Return the seeds of the `count` outputs of a request.

    With a `seed`: seed, seed + 1, ..., wrapping to 0 after MAX_SEED. Without: the first 32 bits of BLAKE2b over base
    seed, id and sample number, so that they are the same in every run, differ from id to id, and are exact in every
    program that reads them.
    """
    if seed is not None:
        return tuple((seed + n) % (MAX_SEED + 1) for n in range(count))
    return tuple(_derived_seed(base_seed, request_id, n) for n in range(count))


def _derived_seed(base_seed: int, request_id: str, n: int) -> int:
    # The id comes last, and the numbers before it hold no line break: distinct triples give distinct bytes.
    triple = f"{base_seed}\n{n}\n{request_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(triple, digest_size=4, person=b"omni-gen seed").digest(), "big")


def _layered(upper: GenerationRequest, lower: GenerationRequest) -> GenerationRequest:
    """Return `upper` with values of `lower` where it has none; merge `extra` key by key, but not id and output."""
    values: dict[str, Any] = {}
    for name in _LAYERED_FIELDS:
        value = getattr(upper, name)
        values[name] = getattr(lower, name) if value is None else value
    extra = {**(lower.extra or {}), **(upper.extra or {})}
    return GenerationRequest(id=upper.id, output=upper.output, extra=extra or None, **values)


def _format(request: GenerationRequest, config: RunConfig, kind: Kind) -> Format:
    """Return the request's format, else by the extension of `output`, else the flag's, else the default of `kind`."""
    configured = config.output.video_format if kind is Kind.VIDEO else config.output.image_format
    name = request.format or output_extension(request.output) or config.defaults.format or configured
    return resolve_format(name) if name else default_format(kind)
