"""From what was said to what is meant: the request's own word, then a flag's, then the card's."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from omni_cli.config import OutputConfig, RunConfig
from omni_cli.media import Kind
from omni_cli.models.cards import Card
from omni_cli.planner.naming import split_extension
from omni_cli.request import Adapter, GenerationRequest
from omni_cli.writers.formats import Format, default_format, resolve_format

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
    full = _layered(said, card.defaults)
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
    if (request.image or request.last_image or request.mask or request.video or request.lora) is None:
        return request
    image = request.image
    return msgspec.structs.replace(
        request,
        image=[_absolute(path, base) for path in image]
        if isinstance(image, list)
        else image and _absolute(image, base),
        last_image=request.last_image and _absolute(request.last_image, base),
        mask=request.mask and _absolute(request.mask, base),
        video=request.video and _absolute(request.video, base),
        lora=request.lora and [_adapter(adapter, base) for adapter in request.lora],
    )


def _absolute(path: str, base: Path) -> str:
    return path if "://" in path else str((base / path).absolute())


def _adapter(adapter: Adapter, base: Path) -> Adapter:
    """`adapter` with an absolute path, unless it names something on a hub: not here, and not written like a file."""
    path = _absolute(adapter.path, base)
    written_as_file = adapter.path.startswith(("/", "./", "../")) or adapter.path.lower().endswith(_WEIGHTS)
    return msgspec.structs.replace(adapter, path=path) if written_as_file or os.path.lexists(path) else adapter
