"""From what a pipeline returned to one checked Media, and from there to one Media per request."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from omni_cli.errors import MediaContractError
from omni_cli.media import NORMALIZED, UNIT, ColorModel, Encoding, Kind, Layout, Media, MediaSpec, check
from omni_cli.models.cards import Card
from omni_cli.request import PlannedRequest
from omni_cli.worker.seam import DEVICE

FIELDS = ("frames", "images", "videos", "video", "audios")
"""Names that diffusers' output classes have for the media; the first that is there counts."""

TRACKS = ("audio", "sound")
"""Names that they have for the sound beside a video."""

LATENT = "latent"
"""The format, and diffusers' output type, of what the decoder would be given."""

ANY_RANGE = (-math.inf, math.inf)

_RATES = (
    ("vocoder", "output_sampling_rate"),
    ("vocoder", "sampling_rate"),
    ("sound_tokenizer", "sampling_rate"),
    ("", "audio_sample_rate"),
    ("", "sample_rate"),
    ("vae", "sampling_rate"),
    ("unet", "sample_rate"),
)
"""(component, "" for the pipeline itself; name in it or in its configuration) of the rate of a pipeline's sound in diffusers 0.42."""

_PICTURES = {1: ColorModel.GRAY, 3: ColorModel.RGB, 4: ColorModel.RGBA}

_LAYOUTS = {
    (DEVICE, 4): Layout.BCHW,
    (DEVICE, 5): Layout.BCTHW,
    ("pt", 4): Layout.BCHW,
    ("pt", 5): Layout.BTCHW,
    ("np", 4): Layout.BHWC,
    ("np", 5): Layout.BTHWC,
}
"""(output type, number of axes) -> meaning of the axes, as diffusers' processors make them."""


def media_of(
    output: Any,
    card: Card,
    device_range: tuple[float, float] | None,
    expected: int,
    sample_rate: int | None = None,
    latent: bool = False,
) -> Media:
    """The media in a pipeline's `output`, checked to hold `expected` samples, with the sound that it has beside a video.

    `device_range` is the seam's word on what it handed out, None where the pipeline made "pt" or "np" itself. `sample_rate` is
    that of its sound, in Hz. `latent`: it was asked for latents.
    """
    data = _tensor(_field(output), expected)
    if latent:
        media = _latents(data)
    elif card.kind is Kind.AUDIO:
        media = _sound(data, sample_rate)
    else:
        media = _pictures(data, card, device_range)
    track = next((value for name in TRACKS if (value := getattr(output, name, None)) is not None), None)
    if track is not None and media.spec.kind in (Kind.VIDEO, Kind.LATENT):
        values = _track(track, expected)
        media = replace(media, audio=_latents(values) if latent else _sound(values, sample_rate))
    check(media, expected)
    return media


def _pictures(data: torch.Tensor, card: Card, device_range: tuple[float, float] | None) -> Media:
    layout = _LAYOUTS.get((card.output_type, data.ndim))
    if layout is None:
        raise MediaContractError(
            f"{card.kind} output breaks the media contract: shape {list(data.shape)}, dtype {data.dtype}: "
            "a batch of images has 4 axes and one of videos has 5"
        )
    color = _PICTURES.get(data.shape[layout.index("C")], ColorModel.RGB)
    kind = Kind.IMAGE if data.ndim == 4 else Kind.VIDEO
    return Media(MediaSpec(kind, layout, Encoding.FLOAT, device_range or UNIT, color), data)


def _sound(data: torch.Tensor, sample_rate: int | None) -> Media:
    """[B, C, S], or [B, S] of one channel, over -1..1."""
    data = data.unsqueeze(1) if data.ndim == 2 else data
    return Media(
        MediaSpec(Kind.AUDIO, Layout.BCS, Encoding.FLOAT, NORMALIZED, ColorModel.NONE, sample_rate=sample_rate), data
    )


def _latents(data: torch.Tensor) -> Media:
    return Media(MediaSpec(Kind.LATENT, Layout.LATENT, Encoding.FLOAT, ANY_RANGE, ColorModel.NONE), data)


def _track(value: Any, expected: int) -> torch.Tensor:
    """The sound beside a video; that of one video may come without its batch axis, as [C, S]."""
    data = _tensor(value, expected)
    return data.unsqueeze(0) if expected == 1 and data.ndim == 2 and data.shape[0] != 1 else data


def sample_rate_of(pipeline: Any) -> int | None:
    """Rate in Hz of the sound that `pipeline` makes, as it says itself; None if it does not."""
    for component, name in _RATES:
        owner = getattr(pipeline, component, None) if component else pipeline
        for place in (getattr(owner, "config", None), owner):
            rate = getattr(place, name, None)
            if isinstance(rate, int | float) and rate > 0:
                return int(rate)
    return None


def for_request(media: Media, planned: PlannedRequest) -> Media:
    """`media` with the float consumers that `planned` brings: frames to be made between, an encoder of more than 8 bits.

    Frames that are uint8 already have no more bits to give to an encoder.
    """
    spec = media.spec
    if spec.kind not in (Kind.IMAGE, Kind.VIDEO):
        return media
    deep = planned.floats_for and spec.encoding is Encoding.FLOAT
    pending = (*spec.pending, planned.floats_for) if deep else spec.pending
    factor = (planned.request.interpolate or 1) if spec.kind is Kind.VIDEO else 1
    return replace(media, spec=replace(spec, pending=pending, interpolate=factor))


def check_size(media: Media, height: int | None, width: int | None, num_frames: int | None) -> None:
    """MediaContractError unless the media has the size that was asked for: a pipeline that rounds sizes must not do so silently."""
    axes = str(media.spec.layout)
    for axis, wanted in (("H", height), ("W", width), ("T", num_frames)):
        made = media.data.shape[axes.index(axis)] if axis in axes else None
        if wanted is not None and made is not None and made != wanted:
            asked = {"H": "height", "W": "width", "T": "num_frames"}[axis]
            raise MediaContractError(
                f"{media.spec.kind} output breaks the media contract: shape {list(media.data.shape)}, layout {axes}: "
                f"{asked} {wanted} was asked for and the pipeline made {made}; ask for a size it takes unchanged"
            )


def split(medias: Sequence[Media], owners: Sequence[int], count: int) -> list[Media]:
    """Request-local media: for each of `count` requests the samples of `medias`, whose sample i belongs to `owners[i]`.

    A request whose samples stand together in one media gets a view; others are joined by a copy.
    """
    return [join(samples) for samples in samples_of(medias, owners, count)]


Sample = tuple[Media, int]
"""A media, and the place of the sample on its batch axis."""


def samples_of(medias: Sequence[Media], owners: Sequence[int], count: int) -> list[list[Sample]]:
    """For each of `count` requests its samples, in order."""
    samples = [(media, index) for media in medias for index in range(media.batch)]
    return [
        [sample for sample, owner in zip(samples, owners, strict=True) if owner == request] for request in range(count)
    ]


def join(samples: Sequence[Sample]) -> Media:
    """One checked media of `samples`: a view where they stand together, else a copy."""
    local = _joined(samples)
    check(local, len(samples))
    return local


def color_of(channels: int) -> ColorModel:
    """The colour model of pictures with so many channels."""
    return _PICTURES.get(channels, ColorModel.RGB)


def _joined(parts: Sequence[tuple[Media, int]]) -> Media:
    """The samples `parts`, each the number of one in a media, as one media; sound goes along with its video."""
    media, first = parts[0]
    together = all(other is media and index == first + at for at, (other, index) in enumerate(parts))
    if together:
        data = media.data[first : first + len(parts)]
    else:
        data = torch.cat([other.data[index : index + 1] for other, index in parts])
    tracks = [(other.audio, index) for other, index in parts if other.audio is not None]
    return Media(media.spec, data, audio=_joined(tracks) if tracks else None)


def _field(output: Any) -> Any:
    """The media inside an output object of diffusers."""
    for name in FIELDS:
        value = getattr(output, name, None)
        if value is not None:
            return value
    raise MediaContractError(
        f"the pipeline's output breaks the media contract: {type(output).__name__} has none of {', '.join(FIELDS)}"
    )


def _tensor(value: Any, expected: int) -> torch.Tensor:
    """A tensor, an array, or a list of either (one per sample, with or without its batch axis) as one tensor."""
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
