"""Turn the output of a pipeline into one checked Media, and that into one Media per request."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from omni_cli.errors import MediaContractError
from omni_cli.media import NORMALIZED, UNIT, ColorModel, Encoding, Kind, Layout, Media, MediaSpec, check
from omni_cli.models.cards import Card
from omni_cli.models.output_fields import field_kind
from omni_cli.request import PlannedRequest
from omni_cli.worker.pipeline.device_output_processor import DEVICE
from omni_cli.worker.pipeline.nested import leaves

LATENT = "latent"
"""The request format, and diffusers' `output_type`, for undecoded latents."""

ANY_RANGE = (-math.inf, math.inf)

_SAMPLE_RATES = (
    ("vocoder", "output_sampling_rate"),
    ("vocoder", "sampling_rate"),
    ("sound_tokenizer", "sampling_rate"),
    ("", "audio_sample_rate"),
    ("", "sample_rate"),
    ("vae", "sampling_rate"),
    ("unet", "sample_rate"),
)
"""Where pipelines of diffusers 0.42 keep their sample rate: (component, attribute or configuration field).

The component is "" for the pipeline itself.
"""

_COLOR_MODELS = {1: ColorModel.GRAY, 3: ColorModel.RGB, 4: ColorModel.RGBA}

_LAYOUTS = {
    (DEVICE, 4): Layout.BCHW,
    (DEVICE, 5): Layout.BCTHW,
    ("pt", 4): Layout.BCHW,
    ("pt", 5): Layout.BTCHW,
    ("np", 4): Layout.BHWC,
    ("np", 5): Layout.BTHWC,
}
"""(output type, number of axes) -> the layout that diffusers' processors return."""

MediaSample = tuple[Media, int]
"""A Media and the index of one sample on its batch axis."""


def media_from_output(
    output: Any,
    card: Card,
    value_range: tuple[float, float] | None,
    expected: int,
    sample_rate: int | None = None,
    latent: bool = False,
) -> Media:
    """Return the media of a pipeline's `output`, with the audio track of a video.

    value_range: the values of black and white; None for 0..1, the range of "pt" and "np".
    expected: the number of samples that the output must hold.
    sample_rate: the rate of its audio in Hz.
    latent: the pipeline was called for latents.

    Raises MediaContractError if the output breaks the media contract.
    """
    arrays = _array_fields(output)
    name = _media_field(output, arrays, card.kind)
    data = _tensor(arrays[name], expected)
    if latent:
        media = _latents(data)
    elif card.kind is Kind.AUDIO:
        media = _audio(data, sample_rate)
    else:
        media = _pictures(data, card, value_range, expected)
    track = next((value for field, value in arrays.items() if field != name and field_kind(field) is Kind.AUDIO), None)
    if track is not None and media.spec.kind in (Kind.VIDEO, Kind.LATENT):
        samples = _tensor(track, expected)
        if expected == 1 and samples.ndim == 2 and samples.shape[0] != 1:
            samples = samples.unsqueeze(0)  # the track of a single video may come as [C, S]
        media = replace(media, audio=_latents(samples) if latent else _audio(samples, sample_rate))
    check(media, expected)
    return media


def _pictures(data: torch.Tensor, card: Card, value_range: tuple[float, float] | None, expected: int) -> Media:
    """Return images or videos, by the number of axes of `data`.

    A single video may come without its batch axis. Several pictures of one sample, such as layers, or the parts of an
    intrinsic decomposition, are put side by side.
    """
    if card.kind is Kind.VIDEO and data.ndim == 4 and expected == 1 != data.shape[0]:
        data = data.unsqueeze(0)
    layout = _LAYOUTS.get((card.output_type, data.ndim))
    if layout is None:
        raise MediaContractError(
            f"{card.kind} output breaks the media contract: shape {list(data.shape)}, dtype {data.dtype}: "
            "a batch of images has 4 axes and one of videos has 5"
        )
    if card.kind is Kind.IMAGE:
        data, layout = _side_by_side(data, layout, expected)
    kind = Kind.IMAGE if data.ndim == 4 else Kind.VIDEO
    color = color_model(data.shape[layout.index("C")])
    return Media(MediaSpec(kind, layout, Encoding.FLOAT, value_range or UNIT, color), data)


def _side_by_side(data: torch.Tensor, layout: Layout, expected: int) -> tuple[torch.Tensor, Layout]:
    """Return images [B, ...] of `expected` samples, each of all its pictures from left to right."""
    if data.ndim == 5:  # [B, T, ...] in this order
        time = layout.index("T")
        data = data.movedim(time, 1).flatten(0, 1)
        layout = Layout(layout.replace("T", ""))
    count = data.shape[0] // expected
    if count > 1 and data.shape[0] == count * expected:
        pictures = data.reshape(expected, count, *data.shape[1:]).unbind(1)
        data = torch.cat(pictures, dim=layout.index("W"))
    return data, layout


def _audio(data: torch.Tensor, sample_rate: int | None) -> Media:
    """Return audio in -1..1. `data`: [B, C, S], or [B, S] for one channel."""
    data = data.unsqueeze(1) if data.ndim == 2 else data
    return Media(
        MediaSpec(Kind.AUDIO, Layout.BCS, Encoding.FLOAT, NORMALIZED, ColorModel.NONE, sample_rate=sample_rate), data
    )


def _latents(data: torch.Tensor) -> Media:
    return Media(MediaSpec(Kind.LATENT, Layout.LATENT, Encoding.FLOAT, ANY_RANGE, ColorModel.NONE), data)


def color_model(channels: int) -> ColorModel:
    """Return the colour model of pictures with `channels` channels."""
    return _COLOR_MODELS.get(channels, ColorModel.RGB)


def sample_rate(pipeline: Any) -> int | None:
    """Return the rate in Hz of the audio that `pipeline` generates; None if it declares none."""
    for component, name in _SAMPLE_RATES:
        owner = getattr(pipeline, component, None) if component else pipeline
        for holder in (getattr(owner, "config", None), owner):
            rate = getattr(holder, name, None)
            if isinstance(rate, int | float) and rate > 0:
                return int(rate)
    return None


def add_float_consumers(media: Media, planned: PlannedRequest) -> Media:
    """Return `media` with the float consumers of its request: frame interpolation, and an encoder of more than 8 bits.

    Media that is uint8 already gets no encoder: it has no more bits to give.
    """
    spec = media.spec
    if spec.kind not in (Kind.IMAGE, Kind.VIDEO):
        return media
    deep = planned.floats_for and spec.encoding is Encoding.FLOAT
    pending = (*spec.pending, planned.floats_for) if deep else spec.pending
    factor = (planned.request.interpolate or 1) if spec.kind is Kind.VIDEO else 1
    return replace(media, spec=replace(spec, pending=pending, interpolate=factor))


def check_size(media: Media, height: int | None, width: int | None, num_frames: int | None) -> None:
    """Check that a pipeline did not round the requested size.

    Raises MediaContractError if `media` has another height or width in pixels, or another number of frames. An image
    may be several of the width side by side.
    """
    axes = str(media.spec.layout)
    requested = {"H": ("height", height), "W": ("width", width), "T": ("num_frames", num_frames)}
    for axis, (name, expected) in requested.items():
        actual = media.data.shape[axes.index(axis)] if axis in axes else None
        if axis == "W" and media.spec.kind is Kind.IMAGE and expected and actual and actual % expected == 0:
            continue
        if expected is not None and actual is not None and actual != expected:
            raise MediaContractError(
                f"{media.spec.kind} output breaks the media contract: shape {list(media.data.shape)}, layout {axes}: "
                f"{name} {expected} was requested and the pipeline made {actual}; request a size it takes unchanged"
            )


def samples_by_request(medias: Sequence[Media], owners: Sequence[int], count: int) -> list[list[MediaSample]]:
    """Return the samples of each of `count` requests in order.

    Sample i, counted over all `medias`, belongs to request `owners[i]`.
    """
    samples = [(media, index) for media in medias for index in range(media.batch)]
    return [
        [sample for sample, owner in zip(samples, owners, strict=True) if owner == request] for request in range(count)
    ]


def join_samples(samples: Sequence[MediaSample]) -> Media:
    """Return one checked Media of `samples`: a view if they are adjacent, else a copy."""
    joined = _join(samples)
    check(joined, len(samples))
    return joined


def _join(samples: Sequence[MediaSample]) -> Media:
    """Return one Media of `samples` with their audio tracks."""
    media, first = samples[0]
    adjacent = all(other is media and index == first + offset for offset, (other, index) in enumerate(samples))
    if adjacent:
        data = media.data[first : first + len(samples)]
    else:
        data = torch.cat([other.data[index : index + 1] for other, index in samples])
    tracks = [(other.audio, index) for other, index in samples if other.audio is not None]
    return Media(media.spec, data, audio=_join(tracks) if tracks else None)


def _array_fields(output: Any) -> dict[str, Any]:
    """Return the fields of an output object that hold tensors or arrays, in its order."""
    return {name: value for name, value in _fields(output).items() if _holds_arrays(value)}


def _fields(output: Any) -> dict[str, Any]:
    """Return the fields of a mapping (diffusers' outputs are), a dataclass or any other object; {} of one without."""
    if isinstance(output, Mapping):
        return {str(name): value for name, value in output.items()}
    if dataclasses.is_dataclass(output):
        return {field.name: getattr(output, field.name) for field in dataclasses.fields(output)}
    return dict(getattr(output, "__dict__", {}))


def _holds_arrays(value: Any) -> bool:
    parts = list(leaves(value))
    return bool(parts) and all(isinstance(part, torch.Tensor | np.ndarray) for part in parts)


def _media_field(output: Any, arrays: Mapping[str, Any], kind: Kind) -> str:
    """Return the name of the first field that holds media of `kind`: sound for audio, anything else for pictures."""
    for name in arrays:
        holds = field_kind(name)
        if holds is not None and (holds is Kind.AUDIO) == (kind is Kind.AUDIO):
            return name
    fields = ", ".join(_fields(output))
    raise MediaContractError(
        f"the pipeline's output breaks the media contract: {type(output).__name__} has no tensor or array of {kind} "
        f"among its fields: {fields or 'none'}"
    )


def _tensor(value: Any, expected: int) -> torch.Tensor:
    """Return a tensor, an array, or a list of either (one per sample, with or without a batch axis) as one tensor."""
    if isinstance(value, list | tuple):
        parts = [_tensor(part, 1) for part in value]
        if not parts or any(part.shape != parts[0].shape for part in parts):
            shapes = [list(part.shape) for part in parts]
            raise MediaContractError(f"the pipeline's output breaks the media contract: samples of shapes {shapes}")
        if len(parts) == expected and parts[0].ndim in (4, 5) and parts[0].shape[0] == 1:
            return torch.cat(parts)
        return torch.stack(parts)
    if isinstance(value, torch.Tensor):
        return value
    try:
        return torch.from_numpy(value)
    except TypeError:
        raise MediaContractError(
            f"the pipeline's output breaks the media contract: it is a {type(value).__name__}, not a tensor or an array"
        ) from None
