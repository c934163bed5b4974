"""From what was said to what is meant: the request's own word, then a flag's, then the card's."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from omni_cli.config import OutputConfig, RunConfig
from omni_cli.inputs import InputKind, with_paths
from omni_cli.media import Kind
from omni_cli.models.cards import Card
from omni_cli.planner.derived import derived
from omni_cli.planner.naming import split_extension
from omni_cli.request import GenerationRequest
from omni_cli.writers.formats import LATENT, Format, default_format, resolve_format

_FIELDS = tuple(name for name in GenerationRequest.__struct_fields__ if name not in ("id", "output", "extra"))

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")


@dataclass(frozen=True, slots=True)
class Resolved:
    """A request with nothing left open that can be known before loading.

    `said` is what the request and the flags say, without the card's defaults. `request` has id, format and num_outputs;
    sizes and frames where someone says them; fps where the output is a video and someone says it. Input paths are absolute.
    """

    said: GenerationRequest
    request: GenerationRequest
    kind: Kind
    form: Format


def resolve(
    request: GenerationRequest, index: int, config: RunConfig, card: Card, base: Path, model: str | None = None
) -> Resolved:
    """Layer `request` (input paths relative to `base`) over the flags (relative to the working folder) and the card.

    `model` is the key of the model that it names (see `models`).

    Raises UsageError for a format that is not known, Misnamed for an extension that cannot be written.
    """
    own = _grounded(request, base)
    said = _layered(own, _grounded(config.defaults, Path()))
    full = derived(_layered(said, card.defaults), said, card)
    # A single frame of a pipeline that only makes images is what it makes anyway.
    frames = None if card.kind is Kind.IMAGE and full.num_frames == 1 else full.num_frames
    kind = Kind.IMAGE if card.kind is Kind.VIDEO and frames == 1 else card.kind
    form = _format(request, config, kind)
    return Resolved(
        said,
        msgspec.structs.replace(
            full,
            id=id_of(request, index),
            model=model,
            output=request.output,
            num_frames=frames,
            num_outputs=1 if full.num_outputs is None else full.num_outputs,
            fps=full.fps if kind is Kind.VIDEO else None,
            interpolate=full.interpolate
            if kind is Kind.VIDEO and form.name != LATENT and full.interpolate != 1
            else None,
            format=form.name,
        ),
        kind,
        form,
    )


def id_of(request: GenerationRequest, index: int) -> str:
    """The id that `request` gives, else its number."""
    return f"{index:05d}" if request.id is None else request.id


def _layered(upper: GenerationRequest, lower: GenerationRequest) -> GenerationRequest:
    """`upper`, and `lower` where it says nothing; `extra` is merged key by key. id and output have no lower layer."""
    values: dict[str, Any] = {}
    for name in _FIELDS:
        value = getattr(upper, name)
        values[name] = getattr(lower, name) if value is None else value
    extra = {**(lower.extra or {}), **(upper.extra or {})}
    return GenerationRequest(id=upper.id, output=upper.output, extra=extra or None, **values)


def _format(request: GenerationRequest, config: RunConfig, kind: Kind) -> Format:
    """The format: said, else by the extension of `output`, else by flag, else the default of `kind`."""
    written = split_extension(request.output.rpartition("/")[2])[1] if request.output else ""
    name = request.format or written or config.defaults.format or _by_kind(config.output, kind)
    return resolve_format(name) if name else default_format(kind)


def _by_kind(output: OutputConfig, kind: Kind) -> str | None:
    return output.video_format if kind is Kind.VIDEO else output.image_format


def _grounded(request: GenerationRequest, base: Path) -> GenerationRequest:
    """`request` with input paths made absolute from `base`. URLs stay as they are, for a check to name them."""
    return with_paths(request, lambda file: (_adapter if file.kind is InputKind.LORA else _absolute)(file.path, base))


def _absolute(path: str, base: Path) -> str:
    return path if "://" in path or path.startswith("data:") else str((base / path).absolute())


def _adapter(path: str, base: Path) -> str:
    """The absolute path of an adapter, unless it names something on a hub: not here, and not written like a file."""
    absolute = _absolute(path, base)
    written_as_file = path.startswith(("/", "./", "../")) or path.lower().endswith(_WEIGHTS)
    return absolute if written_as_file or os.path.lexists(absolute) else path
