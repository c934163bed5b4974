"""Convert decoded media to uint8 levels or float32, always as [N, T, H, W, C] for pictures.

A frame goes float32 -> denormalize -> clamp -> x255 -> round half to even -> uint8, in place, in a buffer that is
allocated once: a band of rows that stays in the cache on a CPU, one frame on other devices. The steps and their order
are those of diffusers' `output_type="np"` followed by `(x * 255).round()`, so float32 input gives its bytes. Narrower
floats are widened first and end at most one level away from diffusers, which denormalizes them in their own type.
"""

from collections.abc import Iterator

import torch

from omni_cli.config import VideoOutputTransport
from omni_cli.errors import MediaContractError
from omni_cli.media import LEVELS, NORMALIZED, UNIT, Encoding, Kind, Layout, Media, MediaHeader, check
from omni_cli.worker.output.interpolate import Interpolator, frame_count
from omni_cli.worker.output.output_check import STRICT, OutputCheck, OutputPolicy

BAND_ELEMENTS = 1 << 17
"""Float32 elements per band on the CPU, 512 KiB. At 480x832: 2.3 ms a frame; 2.7 without bands, 12.8 out of place."""

_HALF = torch.tensor(0.5)
_NOT_PICTURES = frozenset({Kind.AUDIO, Kind.LATENT})
_BLEND = Interpolator()


def frames_shape(media: Media) -> tuple[int, ...]:
    """Return the shape of `media` in host memory: [N, T, H, W, C] for pictures, [N, C, S] for audio, latents unchanged.

    T is 1 for an image and includes the frames that interpolation adds to a video.
    """
    shape = tuple(media.data.shape)
    if media.spec.kind in _NOT_PICTURES:
        return (1, *shape) if media.spec.layout is Layout.CS else shape
    sizes = dict(zip(media.spec.layout, shape, strict=True))
    frames = frame_count(sizes.get("T", 1), media.spec.interpolate)
    return sizes.get("B", 1), frames, sizes["H"], sizes["W"], sizes["C"]


def planes(media: Media) -> torch.Tensor:
    """Return an image or video as a view [N, T, C, H, W] of its data, whatever its layout."""
    data: torch.Tensor = media.data
    axes = str(media.spec.layout)
    for position, axis in enumerate("BT"):
        if axis not in axes:
            data = data.unsqueeze(position)
            axes = axes[:position] + axis + axes[position:]
    return data.permute([axes.index(axis) for axis in "BTCHW"])


def wants_levels(media: Media, transport: VideoOutputTransport) -> bool:
    """Return True if `media` is to travel as uint8 levels, False for float32.

    Floats travel if the conversion is switched off, an encoder needs them, or the media is audio or latents.
    Raises MediaContractError if `media` is malformed.
    """
    check(media)
    spec = media.spec
    allowed = transport.enable_device_postprocess and not spec.pending and spec.kind not in _NOT_PICTURES
    return allowed or spec.encoding is Encoding.UINT8


def header_of(media: Media, shape: tuple[int, ...], dtype: torch.dtype) -> MediaHeader:
    """Return the header of `media` packed as `dtype` (uint8 or float32) of `shape`."""
    spec = media.spec
    return MediaHeader(
        kind=spec.kind,
        dtype=str(dtype).removeprefix("torch."),
        shape=shape,
        color=spec.color,
        value_range=LEVELS if dtype is torch.uint8 else spec.value_range,
        interpolated=spec.interpolate,
        sample_rate=spec.sample_rate,
    )


def write_floats(
    media: Media, out: torch.Tensor, policy: OutputPolicy = STRICT, interpolator: Interpolator = _BLEND
) -> tuple[str, ...]:
    """Copy `media` into `out`, contiguous float32 [...] of `frames_shape(media)`; the value range stays as it is.

    Returns notes and raises as `write_levels` does. A NaN that the policy keeps becomes the low end of the range, an
    infinity the end on its side. Raises MediaContractError for an `out` of another dtype, shape or layout.
    """
    _check_buffer(media, out, torch.float32)
    low, high = media.spec.value_range
    is_picture = media.spec.kind not in _NOT_PICTURES
    output_check = OutputCheck(policy, out.shape[0], out.device)
    sources = planes(media) if is_picture else media.data.reshape(out.shape)
    for number, (sample, target) in enumerate(zip(sources, out, strict=True)):
        parts = interpolator.frames(sample, media.spec.interpolate, media.spec.value_range) if is_picture else (sample,)
        for part, values in zip(parts, target if is_picture else (target,), strict=True):
            local = part.to(out.device)  # in its own dtype: widening on the device takes memory there
            values.copy_(local.permute(1, 2, 0) if is_picture else local)
            output_check.add_floats(values)
            if policy.keep_invalid and media.spec.kind is not Kind.LATENT:
                values.nan_to_num_(low, high, low)
            if policy.fail_on_constant and is_picture:
                levels = torch.empty_like(values)
                _quantize(values, levels, media.spec.value_range)
                output_check.add_levels(number, levels.to(torch.uint8))
    return output_check.finish(media.spec, _named_parts(media, out.device))


def write_levels(
    media: Media, out: torch.Tensor, policy: OutputPolicy = STRICT, interpolator: Interpolator = _BLEND
) -> tuple[str, ...]:
    """Quantize `media` into `out`, contiguous uint8 [N, T, H, W, C] on its device or the host.

    `interpolator` makes the added frames. Frames that are elsewhere than `out` are copied in their own dtype first.

    Returns notes on faults that `policy` keeps: a NaN is then level 0, an infinity the level at its end. Raises
    NonFiniteOutput or ConstantOutput for faults that it does not keep (`out` is then invalid), MediaContractError for
    an `out` of another dtype, shape or layout.
    """
    _check_buffer(media, out, torch.uint8)
    source, value_range = planes(media), media.spec.value_range
    output_check = OutputCheck(policy, out.shape[0], out.device)
    if media.spec.encoding is Encoding.UINT8:
        out.copy_(source.permute(0, 1, 3, 4, 2))
        for number, clip in enumerate(out):
            output_check.add_levels(number, clip)
        return output_check.finish(media.spec, ())
    _, _, channels, height, width = source.shape
    rows = height if out.device.type != "cpu" else max(1, min(height, BAND_ELEMENTS // (channels * width)))
    floats = torch.empty(channels, rows, width, dtype=torch.float32, device=out.device)
    levels = torch.empty(channels, rows, width, dtype=torch.uint8, device=out.device)
    for number, (sample, clip) in enumerate(zip(source, out, strict=True)):
        frames = interpolator.frames(sample, media.spec.interpolate, value_range)
        for frame, picture in zip(frames, clip, strict=True):
            local = frame.to(out.device)
            for top in range(0, height, rows):
                band = local[:, top : top + rows]
                size = band.shape[1]
                _quantize(band, floats[:, :size], value_range, output_check)
                levels[:, :size].copy_(floats[:, :size])
                torch.stack(levels[:, :size].unbind(0), dim=-1, out=picture[top : top + size])
            output_check.add_levels(number, picture)
    return output_check.finish(media.spec, _named_parts(media, out.device))


def _named_parts(media: Media, device: torch.device) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, values on `device`) for each frame of `media`, or each sample of audio and latents."""
    first_sample, first_frame = media.offset
    if media.spec.kind in _NOT_PICTURES:
        for number, sample in enumerate(media.data.reshape(frames_shape(media)), first_sample):
            yield f"sample {number}", sample.to(device)
        return
    for number, sample in enumerate(planes(media), first_sample):
        for index, frame in enumerate(sample, first_frame):
            yield f"frame {index} of sample {number}", frame.to(device)


def _quantize(
    band: torch.Tensor, levels: torch.Tensor, value_range: tuple[float, float], output_check: OutputCheck | None = None
) -> None:
    """Fill `levels`, float32 [...], with whole numbers 0..255 for `band`, any float [...] over `value_range`."""
    low, high = value_range
    if value_range == NORMALIZED:
        # One pass for x * 0.5 + 0.5 with the same bits: halving is exact, so both ways round once.
        wide = band if band.dtype == torch.float32 else levels.copy_(band)
        torch.add(_HALF, wide, alpha=0.5, out=levels)
    else:
        levels.copy_(band)
        if value_range != UNIT:
            levels.sub_(low).div_(high - low)
    if output_check is not None:
        output_check.add_floats(levels)  # not finite here if and only if not finite before
        if output_check.policy.keep_invalid:
            levels.nan_to_num_(0, posinf=1, neginf=0)
    levels.clamp_(0, 1).mul_(255).round_()


def _check_buffer(media: Media, out: torch.Tensor, dtype: torch.dtype) -> None:
    """Raise MediaContractError unless `out` has the dtype, shape and layout that the header announces."""
    shape = frames_shape(media)
    if tuple(out.shape) != shape or out.dtype != dtype or not out.is_contiguous():
        raise MediaContractError(
            f"the buffer for a {media.spec.kind} must be contiguous {dtype} of shape {list(shape)}, "
            f"not {out.dtype} of shape {list(out.shape)} with strides {list(out.stride())}"
        )
