"""Turn the requests of a batch into calls of the pipeline's `__call__`, checked against its parameters.

An Invocation is one call: its samples and the arguments they share. Prompt, negative prompt and generator are per
sample. Generators live on the CPU for every device, so that a seed gives the same noise on every machine.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from omni_cli.errors import ForwardError
from omni_cli.inputs import FIELD_KINDS, InputFile, replaced_files
from omni_cli.models.cards import Card
from omni_cli.models.keywords import NAMES, OUTPUT_ONLY, RESERVED, TEXTS
from omni_cli.models.signature import call_parameters
from omni_cli.request import GenerationRequest, PlannedRequest
from omni_cli.text import did_you_mean
from omni_cli.worker.pipeline.input_loading import ReadInput, read_input
from omni_cli.worker.pipeline.nested import map_leaves


@dataclass(frozen=True, slots=True)
class Sample:
    """One output of one request."""

    prompt: str | None
    negative_prompt: str | None
    seed: int


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call of the pipeline for `samples`; sample i belongs to request `owners[i]` of the batch."""

    samples: tuple[Sample, ...]
    owners: tuple[int, ...]
    shared: dict[str, Any]


def plan_invocations(requests: Sequence[PlannedRequest], card: Card, read: ReadInput = read_input) -> list[Invocation]:
    """Return the invocations that render all samples of one batch, in order.

    Requests with a batch key share one invocation. A request without one is rendered sample by sample.
    Raises ForwardError and InputUnreadable like `call_arguments`.
    """
    samples = [
        (owner, position, Sample(planned.request.prompt, planned.request.negative_prompt, seed))
        for owner, planned in enumerate(requests)
        for position, seed in enumerate(planned.seeds)
    ]
    groups = [samples] if requests[0].shape.batch_key else [[sample] for sample in samples]
    invocations: list[Invocation] = []
    for group in groups:
        owners, positions, members = zip(*group, strict=True)
        shared = call_arguments(requests[owners[0]].request, card, read, positions[0])
        invocations.append(Invocation(members, owners, shared))
    return invocations


def call_arguments(
    request: GenerationRequest, card: Card, read: ReadInput = read_input, position: int = 0
) -> dict[str, Any]:
    """Return the arguments that all samples of a call share: the card's constants, the request's fields and its extras.

    `position` is the index of the first sample among the request's outputs, which selects its latents.

    Raises ForwardError, with the closest match, for a field or extra that the pipeline does not accept, and
    InputUnreadable for a file that cannot be read.
    """
    accepted = set(card.parameters)
    arguments: dict[str, Any] = dict(card.call)
    for field, names in NAMES.items():
        value = getattr(request, field)
        if value is None:
            continue
        name = next((name for name in names if name in accepted), None)
        if name is not None:
            arguments[name] = _field_value(field, request, read)
        elif field not in OUTPUT_ONLY and not (field == "num_frames" and (value == 1 or request.video is not None)):
            raise ForwardError(_not_accepted(field, card, accepted))
    if request.latents is not None and len(arguments["latents"]) > 1:
        arguments["latents"] = arguments["latents"][position : position + 1]
    if request.prompt_embeds is not None:
        arguments |= _embeddings(request.prompt_embeds, card, read)
    for name, value in (request.extra or {}).items():
        arguments[_accepted_name("extra", name, card)] = replaced_files(
            value, name, lambda file: read(file, request.num_frames)
        )
    if "max_area" in accepted and "max_area" not in arguments and request.height and request.width:
        # Such a pipeline rescales any size to this area, by default one megapixel.
        arguments["max_area"] = request.height * request.width
    return arguments


def _field_value(field: str, request: GenerationRequest, read: ReadInput) -> Any:
    """Return the value of `field` as pipelines accept it: the content of files, and a whole `fps` as an int."""
    value, kind = getattr(request, field), FIELD_KINDS.get(field)
    if kind is not None:
        paths = value if isinstance(value, list) else [value]
        contents = [read(InputFile(field, path, kind), request.num_frames) for path in paths]
        return contents if isinstance(value, list) else contents[0]
    if field == "fps" and value == int(value):
        return int(value)
    return value


def _embeddings(path: str, card: Card, read: ReadInput) -> dict[str, Any]:
    """Return the tensors of an embeddings file by argument, and None for each text that they replace.

    A parameter that only accepts a list of tensors gets one tensor per sample.
    """
    tensors = read(InputFile("prompt_embeds", path, FIELD_KINDS["prompt_embeds"]), None)
    parameters = call_parameters(card.pipeline) or {}
    arguments: dict[str, Any] = {
        text: None for text in TEXTS if f"{text}_embeds" in tensors and text in card.parameters
    }
    for name, tensor in tensors.items():
        kinds = parameters.get(name) or frozenset()
        as_list = "tensor*" in kinds and "tensor" not in kinds
        arguments[_accepted_name("prompt_embeds", name, card)] = list(tensor) if as_list else tensor
    return arguments


def _accepted_name(field: str, name: str, card: Card) -> str:
    """Return `name`, a key of `field`. Raises ForwardError if a request cannot set this parameter of the pipeline."""
    if name in RESERVED or name not in card.parameters:
        raise ForwardError(_not_accepted(f"{field}.{name}", card, set(card.parameters) - RESERVED))
    return name


def _not_accepted(field: str, card: Card, accepted: Iterable[str]) -> str:
    guess = did_you_mean(field.rpartition(".")[2], sorted(accepted))
    return f"{card.pipeline} takes no {field}" + (f"; {guess} (as an entry of extra)" if guess else "")


def to_device(arguments: dict[str, Any], device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """Return `arguments` with all tensors [any shape] moved to `device`, and floating ones cast to `dtype`."""

    def move(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.to(device, dtype if leaf.is_floating_point() else None)

    return {name: map_leaves(move, value) for name, value in arguments.items()}


def sample_arguments(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return prompt, negative_prompt and generator of a call: plain values for one sample, lists for several."""
    generators = [torch.Generator("cpu").manual_seed(sample.seed) for sample in samples]
    arguments: dict[str, Any] = {"generator": generators if len(samples) > 1 else generators[0]}
    for name in ("prompt", "negative_prompt"):
        values = [getattr(sample, name) for sample in samples]
        if values[0] is not None:
            arguments[name] = values if len(samples) > 1 else values[0]
    return arguments
