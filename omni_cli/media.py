"""The typed media contract: a pipeline's decoded output with the facts that give its numbers a meaning.

A `Media` is one tensor and its `MediaSpec`. The runner checks it (`check`) and splits the batch into one `Media` per
request. The
packer turns each into bytes exactly once: what comes out is a `MediaHeader`, which no function takes for packing again.
Malformed media fails before any IPC, with an error that names shape, dtype and the broken rule.

    pipeline ──> Media(float, -1..1, BCTHW) ── check, split ──> Media per request ── Packer.pack ──> MediaHeader + bytes

Nothing here imports torch: a tensor is anything with `shape` and `dtype`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from omni_cli.errors import MediaContractError


class Kind(StrEnum):
    """What a sample is."""

    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"
    LATENT = "latent"


class Layout(StrEnum):
    """Meaning of the axes: Batch, Time, Channels, Height, Width, Samples. A layout without B is one sample.

    LATENT is a batch of whatever the pipeline's decoder takes: only its first axis has a fixed meaning.
    """

    BCHW = "BCHW"
    BHWC = "BHWC"
    BCTHW = "BCTHW"
    BTCHW = "BTCHW"
    BTHWC = "BTHWC"
    THWC = "THWC"
    BCS = "BCS"
    CS = "CS"
    LATENT = "B..."


class Encoding(StrEnum):
    """How a value is stored: a float over `value_range`, or a uint8 level 0..255."""

    FLOAT = "float"
    UINT8 = "uint8"


class ColorModel(StrEnum):
    """Meaning of the channels."""

    RGB = "RGB"
    RGBA = "RGBA"
    GRAY = "L"
    NONE = "none"


CHANNELS = {ColorModel.RGB: 3, ColorModel.RGBA: 4, ColorModel.GRAY: 1}

NORMALIZED = (-1.0, 1.0)
UNIT = (0.0, 1.0)
LEVELS = (0.0, 255.0)

_KIND_LAYOUTS = {
    Kind.IMAGE: {Layout.BCHW, Layout.BHWC, Layout.THWC},
    Kind.VIDEO: {Layout.BCTHW, Layout.BTCHW, Layout.BTHWC, Layout.THWC},
    Kind.AUDIO: {Layout.BCS, Layout.CS},
    Kind.LATENT: {Layout.LATENT},
}


@dataclass(frozen=True, slots=True)
class MediaSpec:
    """Facts of a decoded output.

    `value_range`: the pair of floats that mean black and white, such as -1..1 or 0..1; (0, 255) for uint8.
    `pending`: names of the float consumers after transport, such as a 16-bit encoder; uint8 is not allowed while there
    are any.
    `interpolate`: frames that packing makes of each frame but the last; it consumes floats too.
    `sample_rate`: of audio, in Hz.
    """

    kind: Kind
    layout: Layout
    encoding: Encoding
    value_range: tuple[float, float]
    color: ColorModel = ColorModel.RGB
    pending: tuple[str, ...] = ()
    interpolate: int = 1
    sample_rate: int | None = None

    @property
    def float_consumers(self) -> tuple[str, ...]:
        """Names of everything that still needs floats."""
        return (*(("frame interpolation",) if self.interpolate > 1 else ()), *self.pending)


@dataclass(frozen=True, slots=True)
class Media:
    """A decoded output and its facts. `data` may live on any device and may still be computing.

    `notes`: fall-backs that the forward took, and what the pipeline warned of.
    `nsfw`: what the pipeline's safety checker blackened, in words; empty if nothing.
    `stopped_at`: the step after which denoising was cut short on request; None if it ran to the end.
    `audio`: the sound that belongs to a video (kind audio), or its latents beside a video's latents (kind latent).
    `offset`: (sample, frame) at which `data` starts in the request's whole output, for media that is a part of it.
    `streamed`: the frames have left already; `data` has the shape of the whole output and no meaningful values.
    """

    spec: MediaSpec
    data: Any
    notes: tuple[str, ...] = ()
    nsfw: str = ""
    stopped_at: int | None = None
    audio: "Media | None" = None
    offset: tuple[int, int] = (0, 0)
    streamed: bool = False

    @property
    def batch(self) -> int:
        """Number of samples; 1 where the layout has no batch axis."""
        return int(self.data.shape[0]) if self.spec.layout.startswith("B") else 1

    @property
    def nbytes(self) -> int:
        """Bytes on the device, sound included."""
        return int(self.data.nbytes) + (0 if self.audio is None else self.audio.nbytes)


class TrackHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Sound beside a video, or its latents: C-contiguous float32 of `shape`, `offset` bytes into the payload.

    `shape` is [N, C, S] for sound, anything for latents. `sample_rate` in Hz.
    """

    shape: tuple[int, ...]
    offset: int
    sample_rate: int | None = None


class MediaHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Meaning of a packed output's bytes: a C-contiguous array of `dtype` and `shape`, then the `audio` track if there
    is one.

    `shape` is [N, T, H, W, C] for images (T = 1) and video, [N, C, S] for audio, anything for latents.
    `dtype` is a numpy name: "uint8", or "float32" over `value_range`.
    `interpolated`: frames per frame of the pipeline; the pipeline's fps is to be multiplied by it.
    `sample_rate`: of audio, in Hz.
    """

    kind: Kind
    dtype: str
    shape: tuple[int, ...]
    color: ColorModel
    value_range: tuple[float, float]
    interpolated: int = 1
    sample_rate: int | None = None
    audio: TrackHeader | None = None


def check(media: Media, expected_batch: int | None = None) -> None:
    """Raise MediaContractError unless `media` keeps every rule of the contract and holds `expected_batch` samples."""
    spec, shape, dtype = media.spec, tuple(media.data.shape), str(media.data.dtype).removeprefix("torch.")
    broken = _broken_shape_rule(spec, shape) or _broken_value_rule(spec, dtype)
    if broken is None and expected_batch is not None and media.batch != expected_batch:
        broken = f"expected {expected_batch} samples on axis B, got {media.batch}"
    if broken is None and media.audio is not None:
        check(media.audio, media.batch)
        if {Kind.VIDEO: Kind.AUDIO, Kind.LATENT: Kind.LATENT}.get(spec.kind) is not media.audio.spec.kind:
            broken = f"{spec.kind} media cannot have a track of kind {media.audio.spec.kind}"
    if broken is not None:
        facts = f"shape {list(shape)}, dtype {dtype}, layout {spec.layout}"
        raise MediaContractError(f"{spec.kind} output breaks the media contract: {facts}: {broken}")


def _broken_shape_rule(spec: MediaSpec, shape: tuple[int, ...]) -> str | None:
    """Name the first broken rule about axes and what they hold, or None."""
    if spec.layout not in _KIND_LAYOUTS[spec.kind]:
        return f"layout must be one of {sorted(_KIND_LAYOUTS[spec.kind])} for {spec.kind}"
    if spec.kind is Kind.LATENT:
        if len(shape) < 2:
            return "latents need a batch axis and at least one more"
    elif len(shape) != len(spec.layout):
        return f"layout {spec.layout} needs {len(spec.layout)} axes"
    if any(size < 1 for size in shape):
        return "every axis must hold at least one element"
    if spec.color in CHANNELS and shape[spec.layout.index("C")] != CHANNELS[spec.color]:
        return f"colour model {spec.color} needs {CHANNELS[spec.color]} channels on axis C"
    if spec.kind is Kind.AUDIO and not (spec.sample_rate and spec.sample_rate > 0):
        return "audio needs a sample rate"
    if spec.interpolate != 1 and (spec.kind is not Kind.VIDEO or spec.interpolate < 1):
        return f"interpolate must be 1, or more for a video, not {spec.interpolate}"
    return None


def _broken_value_rule(spec: MediaSpec, dtype: str) -> str | None:
    """Name the first broken rule about encoding, value range or float consumers, or None."""
    low, high = spec.value_range
    if spec.encoding is Encoding.UINT8:
        if dtype != "uint8":
            return "encoding uint8 needs dtype uint8"
        if (low, high) != LEVELS:
            return f"encoding uint8 needs value range 0..255, not {low}..{high}"
        if spec.float_consumers:
            return f"uint8 although float consumers are pending: {', '.join(spec.float_consumers)}"
        return None
    if not dtype.startswith(("float", "bfloat")):
        return "encoding float needs a floating dtype"
    if not low < high:
        return f"value range {low}..{high} is empty"
    return None
