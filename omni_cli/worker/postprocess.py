"""Decoded media to host bytes: uint8 levels where policy allows, float32 otherwise, always [N, T, H, W, C].

A frame goes float32 → denormalize → clamp → ×255 → round half to even → uint8, in place, in a buffer that is allocated
once. On the CPU the buffer holds a band of rows that stays in the cache; on an accelerator it is one frame. The steps and
their order are those of diffusers' `output_type="np"` followed by `(x * 255).round()`, so float32 input gives its bytes;
narrower floats are widened first and end at most one level away from denormalizing in the narrow type.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from omni_cli.config import VideoOutputTransport
from omni_cli.errors import MediaContractError
from omni_cli.media import LEVELS, NORMALIZED, UNIT, Encoding, Kind, Layout, Media, MediaHeader, check
from omni_cli.worker.interpolate import Interpolator, frame_count
from omni_cli.worker.validity import STRICT, Inspection, Validity

BAND_ELEMENTS = 1 << 17
"""Float32 elements per band on the CPU: half a megabyte. Measured, 480x832: 2.3 ms a frame against 2.7 unbanded and 12.8 naive."""

_HALF = torch.tensor(0.5)
_HOST_LAYOUT = {Kind.IMAGE: Layout.BHWC, Kind.VIDEO: Layout.BTHWC, Kind.AUDIO: Layout.BCS, Kind.LATENT: Layout.LATENT}
_NO_PICTURE = frozenset({Kind.AUDIO, Kind.LATENT})
_BLEND = Interpolator()


def frames_shape(media: Media) -> tuple[int, ...]:
    """Shape that `media` has in host memory: (N, T, H, W, C), T = 1 for an image; (N, C, S) for audio; latents as they are.

    T counts the frames that interpolation adds.
    """
    if media.spec.kind in _NO_PICTURE:
        return tuple((media.data[None] if media.spec.layout is Layout.CS else media.data).shape)
    samples, frames, channels, height, width = planes(media).shape
    return samples, frame_count(frames, media.spec.interpolate), height, width, channels


def planes(media: Media) -> torch.Tensor:
    """View of an image or video as [N, T, C, H, W], whatever its layout; shares storage with `media`."""
    data: torch.Tensor = media.data
    axes = str(media.spec.layout)
    for position, axis in enumerate("BT"):
        if axis not in axes:
            data = data.unsqueeze(position)
            axes = axes[:position] + axis + axes[position:]
    return data.permute([axes.index(axis) for axis in "BTCHW"])


def wants_levels(media: Media, transport: VideoOutputTransport) -> bool:
    """True if policy lets `media` travel as uint8 levels; else it travels as the floats it is.

    Floats stay when the conversion is switched off, a float consumer is pending behind the transport, or it is no picture.
    Raises MediaContractError for media that is malformed or was prepared before.
    """
    check(media)
    spec = media.spec
    if spec.prepared:
        raise MediaContractError(f"{spec.kind} output breaks the media contract: it was prepared for transport twice")
    allowed = transport.enable_device_postprocess and not spec.pending and spec.kind not in _NO_PICTURE
    return allowed or spec.encoding is Encoding.UINT8


def header_of(media: Media, shape: tuple[int, ...], dtype: torch.dtype) -> MediaHeader:
    """What the bytes mean once `media` is written as `dtype` (uint8 or float32) of `shape`."""
    spec = media.spec
    value_range = LEVELS if dtype is torch.uint8 else spec.value_range
    name = str(dtype).removeprefix("torch.")
    return MediaHeader(
        kind=spec.kind,
        dtype=name,
        shape=shape,
        color=spec.color,
        value_range=value_range,
        interpolated=spec.interpolate,
        sample_rate=spec.sample_rate,
    )


def prepare(media: Media, transport: VideoOutputTransport) -> Media:
    """`media` as policy says, in new memory on its own device. An image gets layout BHWC, a video BTHWC, audio BCS."""
    levels = wants_levels(media, transport)
    out = torch.empty(frames_shape(media), dtype=torch.uint8 if levels else torch.float32, device=media.data.device)
    (write_levels if levels else write_floats)(media, out)
    spec = replace(
        media.spec,
        layout=_HOST_LAYOUT[media.spec.kind],
        encoding=Encoding.UINT8 if levels else Encoding.FLOAT,
        value_range=LEVELS if levels else media.spec.value_range,
        interpolate=1,
        prepared=True,
    )
    return replace(media, spec=spec, data=out[:, 0] if spec.kind is Kind.IMAGE else out)


def write_floats(
    media: Media, out: torch.Tensor, policy: Validity = STRICT, between: Interpolator = _BLEND
) -> tuple[str, ...]:
    """Copy `media` into `out`, contiguous float32 of `frames_shape(media)`; the value range stays as it is.

    Notes and errors as `write_levels`; a kept NaN is the low end of the range, an infinity its end.
    """
    _expect(media, out, torch.float32)
    low, high = media.spec.value_range
    picture = media.spec.kind not in _NO_PICTURE
    seen = Inspection(policy, out.shape[0], out.device)
    sources = planes(media) if picture else media.data.reshape(out.shape)
    for number, (sample, copy) in enumerate(zip(sources, out, strict=True)):
        parts = _frames(sample, media, between) if picture else (sample,)
        for part, values in zip(parts, copy if picture else (copy,), strict=True):
            values.copy_(part.permute(1, 2, 0) if picture else part)
            seen.see_floats(values)
            if policy.keep_invalid and media.spec.kind is not Kind.LATENT:
                values.nan_to_num_(low, high, low)
            if policy.fail_on_constant and picture:
                seen.see_levels(number, _quantized(values, media.spec.value_range))
    return seen.verdict(media.spec, _parts(media))


def _frames(sample: torch.Tensor, media: Media, between: Interpolator) -> Iterator[torch.Tensor]:
    """The frames [C, H, W] of one sample [T, C, H, W] of `media`, with those that are to come between."""
    return between.frames(sample, media.spec.interpolate, media.spec.value_range)


def write_levels(
    media: Media, out: torch.Tensor, policy: Validity = STRICT, between: Interpolator = _BLEND
) -> tuple[str, ...]:
    """Quantize `media` into `out`, contiguous uint8 [N, T, H, W, C] on the same device; `between` makes added frames.

    Returns notes on what `policy` let pass: a NaN is then level 0, an infinity the level at its end. Raises NonFiniteOutput or
    ConstantOutput for what it does not let pass; `out` is then worth nothing.
    """
    _expect(media, out, torch.uint8)
    source = planes(media)
    seen = Inspection(policy, out.shape[0], out.device)
    if media.spec.encoding is Encoding.UINT8:
        out.copy_(source.permute(0, 1, 3, 4, 2))
        for number, clip in enumerate(out):
            seen.see_levels(number, clip)
        return seen.verdict(media.spec, ())
    _, _, channels, height, width = source.shape
    rows = height if source.device.type != "cpu" else max(1, min(height, BAND_ELEMENTS // (channels * width)))
    floats = torch.empty(channels, rows, width, dtype=torch.float32, device=source.device)
    levels = torch.empty(channels, rows, width, dtype=torch.uint8, device=source.device)
    for number, (sample, clip) in enumerate(zip(source, out, strict=True)):
        for frame, picture in zip(_frames(sample, media, between), clip, strict=True):
            for top in range(0, height, rows):
                band = frame[:, top : top + rows]
                size = band.shape[1]
                _quantize(band, floats[:, :size], media.spec.value_range, seen)
                levels[:, :size].copy_(floats[:, :size])
                torch.stack(levels[:, :size].unbind(0), dim=-1, out=picture[top : top + size])
            seen.see_levels(number, picture)
    return seen.verdict(media.spec, _parts(media))


def _parts(media: Media) -> Iterator[tuple[str, torch.Tensor]]:
    """The values of `media` frame by frame (sound: sample by sample), each with its place for people."""
    flat = media.spec.kind in _NO_PICTURE
    first_sample, first_frame = media.first
    samples = media.data.reshape(frames_shape(media)) if flat else planes(media)
    for number, sample in enumerate(samples, first_sample):
        if flat:
            yield f"sample {number}", sample
            continue
        for index, frame in enumerate(sample, first_frame):
            yield f"frame {index} of sample {number}", frame


def _quantize(
    band: torch.Tensor, levels: torch.Tensor, value_range: tuple[float, float], seen: Inspection | None = None
) -> None:
    """Fill `levels` (float32) with whole numbers 0..255 for `band` (any float), both of the same shape."""
    low, high = value_range
    if value_range == NORMALIZED:
        # One pass for x * 0.5 + 0.5, and the same bits: halving is exact, so there is one rounding either way.
        wide = band if band.dtype == torch.float32 else levels.copy_(band)
        torch.add(_HALF, wide, alpha=0.5, out=levels)
    else:
        levels.copy_(band)
        if value_range != UNIT:
            levels.sub_(low).div_(high - low)
    if seen is not None:
        seen.see_floats(levels)  # not finite here if not finite before
        if seen.policy.keep_invalid:
            levels.nan_to_num_(0, posinf=1, neginf=0)
    levels.clamp_(0, 1).mul_(255).round_()


def _quantized(values: torch.Tensor, value_range: tuple[float, float]) -> torch.Tensor:
    """The uint8 levels of float32 `values`, in new memory."""
    levels = torch.empty_like(values)
    _quantize(values, levels, value_range)
    return levels.to(torch.uint8)


def _expect(media: Media, out: torch.Tensor, dtype: torch.dtype) -> None:
    """Refuse an `out` whose bytes would not be what the header says."""
    shape = frames_shape(media)
    if tuple(out.shape) != shape or out.dtype != dtype or not out.is_contiguous():
        raise MediaContractError(
            f"the buffer for a {media.spec.kind} must be contiguous {dtype} of shape {list(shape)} ({math.prod(shape)} elements), "
            f"not {out.dtype} of shape {list(out.shape)}"
        )
