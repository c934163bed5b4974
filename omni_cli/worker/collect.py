"""From what a pipeline returned to one checked Media, and from there to one Media per request."""

from collections.abc import Sequence
from typing import Any

import torch

from omni_cli.errors import MediaContractError
from omni_cli.media import NORMALIZED, UNIT, ColorModel, Encoding, Kind, Layout, Media, MediaSpec, check
from omni_cli.models.cards import Card
from omni_cli.worker.seam import DEVICE

FIELDS = ("frames", "images", "videos", "audios")
"""Names that diffusers' output classes have for the media; the first that is there counts."""

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


def media_of(output: Any, card: Card, device_range: tuple[float, float] | None, expected: int) -> Media:
    """The media in a pipeline's `output`, checked to hold `expected` samples.

    `device_range` is the seam's word on what it handed out, None where the pipeline made "pt" or "np" itself.
    """
    data = _tensor(_field(output), expected)
    if card.kind is Kind.AUDIO:
        data = data.unsqueeze(1) if data.ndim == 2 else data
        media = Media(MediaSpec(Kind.AUDIO, Layout.BCS, Encoding.FLOAT, NORMALIZED, ColorModel.NONE), data)
    else:
        layout = _LAYOUTS.get((card.output_type, data.ndim))
        if layout is None:
            raise MediaContractError(
                f"{card.kind} output breaks the media contract: shape {list(data.shape)}, dtype {data.dtype}: "
                "a batch of images has 4 axes and one of videos has 5"
            )
        color = _PICTURES.get(data.shape[layout.index("C")], ColorModel.RGB)
        encoding = Encoding.FLOAT
        kind = Kind.IMAGE if data.ndim == 4 else Kind.VIDEO
        media = Media(MediaSpec(kind, layout, encoding, device_range or UNIT, color), data)
    check(media, expected)
    return media


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
    samples = [(media, index) for media in medias for index in range(media.batch)]
    result = []
    for request in range(count):
        mine = [sample for sample, owner in zip(samples, owners, strict=True) if owner == request]
        media, first = mine[0]
        if all(other is media for other, _ in mine) and [index for _, index in mine] == list(
            range(first, first + len(mine))
        ):
            data = media.data[first : first + len(mine)]
        else:
            data = torch.cat([other.data[index : index + 1] for other, index in mine])
        local = Media(media.spec, data)
        check(local, len(mine))
        result.append(local)
    return result


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
