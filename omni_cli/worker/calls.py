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
from omni_cli.models.cards import Card
from omni_cli.request import GenerationRequest, PlannedRequest
from omni_cli.worker.inputs import read_image, read_mask, read_video

NAMES = {
    "height": ("height",),
    "width": ("width",),
    "num_frames": ("num_frames", "video_length", "frames"),
    "num_inference_steps": ("num_inference_steps",),
    "guidance_scale": ("guidance_scale",),
    "guidance_scale_2": ("guidance_scale_2",),
    "true_cfg_scale": ("true_cfg_scale",),
    "strength": ("strength",),
    "fps": ("fps", "frame_rate"),
    "image": ("image",),
    "last_image": ("last_image",),
    "mask": ("mask_image", "mask"),
    "video": ("video",),
}
"""Field of a request -> the names that pipelines have for it, the commonest first."""

OUTPUT_ONLY = frozenset({"fps"})
"""Fields that a pipeline may ignore: they say how the file is written."""

READERS: dict[str, Callable[[str, str], Any]] = {
    "image": read_image,
    "last_image": read_image,
    "mask": read_mask,
    "video": read_video,
}

RESERVED = frozenset(
    {"prompt", "negative_prompt", "generator", "output_type", "return_dict", "num_images_per_prompt"}
    | {
        "num_videos_per_prompt",
        "callback",
        "callback_steps",
        "callback_on_step_end",
        "callback_on_step_end_tensor_inputs",
    }
)
"""Keywords that the runner sets itself: `extra` may not."""


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


def plan(requests: Sequence[PlannedRequest], card: Card) -> list[Call]:
    """The calls that make all samples of `requests`, in order: one per group that can share, else one per sample."""
    calls: list[Call] = []
    groups: dict[str, list[tuple[int, Sample]]] = {}
    for owner, planned in enumerate(requests):
        shared = _sharing_key(planned.request, card)
        for position, seed in enumerate(planned.seeds):
            sample = Sample(planned.request.prompt, planned.request.negative_prompt, seed)
            groups.setdefault(shared or f"alone {owner} {position}", []).append((owner, sample))
    for members in groups.values():
        owners, samples = zip(*members, strict=True)
        calls.append(Call(samples, owners, keywords(requests[owners[0]].request, card)))
    return calls


def _sharing_key(request: GenerationRequest, card: Card) -> str | None:
    """Equal for samples that may share a call: same keywords, and prompts that may stand in one list. None: none may."""
    if not card.batchable or any(getattr(request, field) is not None for field in READERS):
        return None
    shared = {field: getattr(request, field) for field in NAMES if field not in READERS}
    shared |= {"extra": request.extra, "lora": [msgspec.to_builtins(adapter) for adapter in request.lora or ()]}
    given = [request.prompt is not None, request.negative_prompt is not None]
    return json.dumps([shared, given], sort_keys=True, default=str)


def keywords(request: GenerationRequest, card: Card) -> dict[str, Any]:
    """The keywords that all samples of `request` share: the card's constants, the request's fields, its extras.

    Raises ForwardError for a field or extra that the pipeline does not take, with the nearest that it does.
    """
    taken = set(card.parameters)
    result: dict[str, Any] = dict(card.call)
    for field, names in NAMES.items():
        value = getattr(request, field)
        if value is None:
            continue
        name = next((name for name in names if name in taken), None)
        if name is not None:
            result[name] = _value(field, value)
        elif field not in OUTPUT_ONLY and not (field == "num_frames" and value == 1):
            raise ForwardError(_unknown(field, card, taken))
    for name in request.extra or {}:
        if name in RESERVED or name not in taken:
            raise ForwardError(_unknown(f"extra.{name}", card, taken - RESERVED))
    result |= request.extra or {}
    if "max_area" in taken and "max_area" not in result and request.height and request.width:
        # Such a pipeline rescales any size to this area, by default one megapixel.
        result["max_area"] = request.height * request.width
    return result


def _value(field: str, value: Any) -> Any:
    """`value` as the pipeline takes it: files are read, a whole number of frames per second is an int."""
    if field in READERS:
        read = READERS[field]
        return [read(path, field) for path in value] if isinstance(value, list) else read(value, field)
    if field == "fps" and value == int(value):
        return int(value)
    return value


def _unknown(field: str, card: Card, taken: Iterable[str]) -> str:
    near = difflib.get_close_matches(field.removeprefix("extra."), sorted(taken), n=1)
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
