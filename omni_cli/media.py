"""The typed media contract: what a pipeline's decoded output is, so that nothing has to be guessed after it.

A `Media` is one tensor and the six facts that give it meaning. The runner validates it (`check`), splits the batch into
request-local parts and prepares each for transport exactly once; a malformed one fails before any IPC with an error that
names shape, dtype and the rule it breaks. Nothing here imports torch: a tensor is anything with `shape` and `dtype`.

    pipeline ──> Media(float, normalized, BCTHW) ──check──> split ──> Media(uint8, THWC, prepared) ──> transport
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

    LATENT is a batch of whatever the pipeline's decoder takes: only the first axis has a meaning here.
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
    """How a level is written: a float over `value_range`, or a uint8 level 0..255."""

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
    """The facts of a decoded output.

    `value_range` is the pair of floats that mean black and white (-1..1, 0..1), or (0, 255) for uint8. `pending` names the
    float consumers behind the transport (a 16-bit encoder): while it is not empty, uint8 is not allowed. `interpolate` is the
    frames that preparation is to make of each but the last, a float consumer before the transport. `sample_rate` is that of
    audio, in Hz. `prepared` is set once, by the preparation for transport.
    """

    kind: Kind
    layout: Layout
    encoding: Encoding
    value_range: tuple[float, float]
    color: ColorModel = ColorModel.RGB
    pending: tuple[str, ...] = ()
    interpolate: int = 1
    sample_rate: int | None = None
    prepared: bool = False

    @property
    def float_consumers(self) -> tuple[str, ...]:
        """Names of all that still has to see floats."""
        return (*(("frame interpolation",) if self.interpolate > 1 else ()), *self.pending)


@dataclass(frozen=True, slots=True)
class Media:
    """A decoded output and its facts. `data` may live on any device; `notes` are fall-backs that its forward took.

    `stopped_at`: the step after which its denoising was cut short on request; None if it went to the end.
    `audio` is the sound that belongs to a video (of kind audio), or its latents beside a video's (of kind latent).
    `first`: the sample and the frame of the request's whole output that `data` begins with, where it is a part of it.
    """

    spec: MediaSpec
    data: Any
    notes: tuple[str, ...] = ()
    stopped_at: int | None = None
    audio: "Media | None" = None
    first: tuple[int, int] = (0, 0)

    @property
    def batch(self) -> int:
        """Number of samples; 1 where the layout has no batch axis."""
        return int(self.data.shape[0]) if self.spec.layout.startswith("B") else 1

    @property
    def nbytes(self) -> int:
        """Bytes that it holds on its device."""
        return int(self.data.nbytes) + (0 if self.audio is None else self.audio.nbytes)


class TrackHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Sound beside a video, or its latents: C-contiguous float32 of `shape`, [N, C, S] for sound, `offset` bytes into the payload."""

    shape: tuple[int, ...]
    offset: int
    sample_rate: int | None = None


class MediaHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Meaning of an output's bytes: C-contiguous `dtype` array of `shape`; `samples` outputs stand behind each other on axis 0.

    `shape` is [N, T, H, W, C] for images (T = 1) and video, [N, C, S] for audio, anything for latents. `dtype` is a numpy name:
    "uint8", or "float32" over `value_range`. `interpolated`: there are so many frames for each of the pipeline's.
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
    """Raise MediaContractError unless `media` keeps every rule of the contract (and holds `expected_batch` samples)."""
    spec, shape, dtype = media.spec, tuple(media.data.shape), str(media.data.dtype).removeprefix("torch.")
    broken = _broken_rule(spec, shape, dtype)
    if broken is None and expected_batch is not None and media.batch != expected_batch:
        broken = f"expected {expected_batch} samples on axis B, found {media.batch}"
    if broken is None and media.audio is not None:
        check(media.audio, media.batch)
        broken = _broken_track_rule(media)
    if broken is not None:
        raise MediaContractError(
            f"{spec.kind} output breaks the media contract: shape {list(shape)}, dtype {dtype}, layout {spec.layout}: {broken}"
        )


def _broken_rule(spec: MediaSpec, shape: tuple[int, ...], dtype: str) -> str | None:
    """Name the first rule that is broken, or None."""
    if spec.layout not in _KIND_LAYOUTS[spec.kind]:
        return f"layout must be one of {sorted(_KIND_LAYOUTS[spec.kind])} for {spec.kind}"
    if spec.kind is Kind.LATENT:
        if len(shape) < 2:
            return "latents need a batch axis and another"
    elif len(shape) != len(spec.layout):
        return f"layout {spec.layout} needs {len(spec.layout)} axes"
    if any(size < 1 for size in shape):
        return "every axis must hold at least one element"
    if spec.color in CHANNELS and shape[spec.layout.index("C")] != CHANNELS[spec.color]:
        return f"colour model {spec.color} needs {CHANNELS[spec.color]} channels on axis C"
    if spec.kind is Kind.AUDIO and not (spec.sample_rate and spec.sample_rate > 0):
        return "audio needs a sample rate"
    if spec.interpolate != 1 and (spec.kind is not Kind.VIDEO or spec.interpolate < 1):
        return f"{spec.interpolate} frames for each can be made of a video alone"
    return _broken_value_rule(spec, dtype)


def _broken_track_rule(media: Media) -> str | None:
    """Name the broken rule about the sound beside `media`, or None."""
    assert media.audio is not None
    pairs = {Kind.VIDEO: Kind.AUDIO, Kind.LATENT: Kind.LATENT}
    wanted = pairs.get(media.spec.kind)
    return (
        None if media.audio.spec.kind is wanted else f"{media.audio.spec.kind} cannot go along with {media.spec.kind}"
    )


def _broken_value_rule(spec: MediaSpec, dtype: str) -> str | None:
    """Name the broken rule about encoding, range or life cycle, or None."""
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
