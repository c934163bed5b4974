"""From requests to keywords of a pipeline's `__call__`, checked against what it takes.

A Call is one invocation: the samples that share it and the keywords they share. Prompt, negative prompt and generator are
per sample. Generators live on the CPU, whatever the device: the noise of a seed is then the same on every machine.
"""

import difflib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import torch

from omni_cli.errors import ForwardError
from omni_cli.inputs import FIELD_KINDS, InputFile, reads_files, replaced_files
from omni_cli.models.cards import Card
from omni_cli.models.keywords import NAMES, OUTPUT_ONLY, RESERVED, TEXTS
from omni_cli.models.signature import parameters_of
from omni_cli.request import GenerationRequest, PlannedRequest
from omni_cli.worker.collect import LATENT
from omni_cli.worker.inputs import read_input

Take = Callable[[InputFile, int | None], Any]
"""Gives what is in an input file, of a clip at most so many frames."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One output of one request."""

    prompt: str | None
    negative_prompt: str | None
    seed: int


@dataclass(frozen=True, slots=True)
class Call:
    """One invocation of the pipeline for `samples`, which belong to the requests at `owners` of the batch, in order."""

    samples: tuple[Sample, ...]
    owners: tuple[int, ...]
    shared: dict[str, Any]


def plan(requests: Sequence[PlannedRequest], card: Card, take: Take = read_input) -> list[Call]:
    """The calls that make all samples of `requests`, in order: one per group that can share, else one per sample."""
    calls: list[Call] = []
    groups: dict[str, list[tuple[int, int, Sample]]] = {}
    for owner, planned in enumerate(requests):
        shared = _sharing_key(planned.request, card)
        for position, seed in enumerate(planned.seeds):
            sample = Sample(planned.request.prompt, planned.request.negative_prompt, seed)
            groups.setdefault(shared or f"alone {owner} {position}", []).append((owner, position, sample))
    for members in groups.values():
        owners, positions, samples = zip(*members, strict=True)
        calls.append(Call(samples, owners, keywords(requests[owners[0]].request, card, take, positions[0])))
    return calls


def _sharing_key(request: GenerationRequest, card: Card) -> str | None:
    """Equal for samples that may share a call: same keywords, and prompts that may stand in one list. None: none may."""
    if not card.batchable or reads_files(request):
        return None
    shared = {field: getattr(request, field) for field in NAMES}
    shared |= {
        "latent": request.format == LATENT,
        "extra": request.extra,
        "lora": [msgspec.to_builtins(adapter) for adapter in request.lora or ()],
    }
    given = [request.prompt is not None, request.negative_prompt is not None]
    return json.dumps([shared, given], sort_keys=True, default=str)


def keywords(request: GenerationRequest, card: Card, take: Take = read_input, position: int = 0) -> dict[str, Any]:
    """The keywords of a call for output `position` of `request`: the card's constants, the request's fields, its extras.

    Raises ForwardError for a field or extra that the pipeline does not take, with the nearest that it does, and
    InputUnreadable for a file.
    """
    taken = set(card.parameters)
    result: dict[str, Any] = dict(card.call)
    for field, names in NAMES.items():
        value = getattr(request, field)
        if value is None:
            continue
        name = next((name for name in names if name in taken), None)
        if name is not None:
            result[name] = _value(field, request, take)
        elif field not in OUTPUT_ONLY and not (field == "num_frames" and (value == 1 or request.video is not None)):
            raise ForwardError(_unknown(field, card, taken))
    if request.latents is not None:
        result["latents"] = _of_output(result["latents"], position)
    if request.prompt_embeds is not None:
        result |= _embeddings(request.prompt_embeds, card, take)
    for name, value in (request.extra or {}).items():
        result[_allowed("extra", name, card, taken)] = replaced_files(
            value, name, lambda file: take(file, request.num_frames)
        )
    if "max_area" in taken and "max_area" not in result and request.height and request.width:
        # Such a pipeline rescales any size to this area, by default one megapixel.
        result["max_area"] = request.height * request.width
    return result


def _value(field: str, request: GenerationRequest, take: Take) -> Any:
    """The value of `field` as the pipeline takes it: files are read, a whole number of frames per second is an int."""
    value, kind = getattr(request, field), FIELD_KINDS.get(field)
    if kind is not None:
        paths = value if isinstance(value, list) else [value]
        read = [take(InputFile(field, path, kind), request.num_frames) for path in paths]
        return read if isinstance(value, list) else read[0]
    if field == "fps" and value == int(value):
        return int(value)
    return value


def _of_output(latents: torch.Tensor, position: int) -> torch.Tensor:
    """The latents of one output: of a batch of them its own, of one the same for all."""
    return latents[position : position + 1] if len(latents) > 1 else latents


def _embeddings(path: str, card: Card, take: Take) -> dict[str, Any]:
    """The tensors of a file by keyword; a text whose embeddings they hold is None, whatever its default."""
    taken = set(card.parameters)
    tensors = take(InputFile("prompt_embeds", path, FIELD_KINDS["prompt_embeds"]), None)
    texts = dict.fromkeys(text for text in TEXTS if f"{text}_embeds" in tensors and text in taken)
    return texts | {
        _allowed("prompt_embeds", name, card, taken): _listed(name, card, tensor) for name, tensor in tensors.items()
    }


def _listed(name: str, card: Card, tensor: torch.Tensor) -> torch.Tensor | list[torch.Tensor]:
    """A tensor of one sample as the pipeline takes it: some want a list with one tensor per sample."""
    kinds = (parameters_of(card.pipeline) or {}).get(name) or frozenset()
    return list(tensor) if "tensor*" in kinds and "tensor" not in kinds else tensor


def _allowed(field: str, name: str, card: Card, taken: set[str]) -> str:
    """`name`, which a request gives in `field`, if the pipeline takes it and it is not the engine's to give."""
    if name in RESERVED or name not in taken:
        raise ForwardError(_unknown(f"{field}.{name}", card, taken - RESERVED))
    return name


def placed(value: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """`value` with every tensor in it on `device`, those of floats in `dtype`."""
    match value:
        case torch.Tensor():
            return value.to(device, dtype if value.is_floating_point() else None)
        case dict():
            return {key: placed(item, device, dtype) for key, item in value.items()}
        case list():
            return [placed(item, device, dtype) for item in value]
        case _:
            return value


def _unknown(field: str, card: Card, taken: Iterable[str]) -> str:
    near = difflib.get_close_matches(field.rpartition(".")[2], sorted(taken), n=1)
    advice = f"; did you mean {near[0]!r} (as an entry of extra)?" if near else ""
    return f"{card.pipeline} takes no {field}{advice}"


def per_sample(samples: Sequence[Sample]) -> dict[str, Any]:
    """prompt, negative_prompt and generator of a call: plain values for one sample, lists for several."""
    generators = [torch.Generator("cpu").manual_seed(sample.seed) for sample in samples]
    result: dict[str, Any] = {"generator": generators if len(samples) > 1 else generators[0]}
    for name in ("prompt", "negative_prompt"):
        values = [getattr(sample, name) for sample in samples]
        if values[0] is not None:
            result[name] = values if len(samples) > 1 else values[0]
    return result
