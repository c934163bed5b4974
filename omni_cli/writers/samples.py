"""Samples: the payload of a worker as frames, sound or latents, viewed in place and never copied whole.

uint8 payloads are viewed as they are. float32 payloads (no device postprocess) are converted one frame at a time:
denormalize by the value range, clamp, x255, round half to even, uint8. For -1..1 that is diffusers'
`VaeImageProcessor.denormalize`, `(x * 0.5 + 0.5).clamp(0, 1)`, in float32, so the bytes equal its `output_type="np"`
rounded.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omni_cli.errors import MediaContractError, NonFiniteOutput
from omni_cli.media import CHANNELS, LEVELS, NORMALIZED, UNIT, ColorModel, Kind, MediaHeader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Frame = NDArray[np.uint8]
    DeepFrame = NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class Sound:
    """A sound of one sample.

    `array`: float32 [C, S], range -1..1, C-contiguous, a view over the payload like `Frames.array`. `sample_rate`: Hz.
    """

    array: "NDArray[np.float32]"
    sample_rate: int

    @property
    def channels(self) -> int:
        """Number of channels C."""
        return int(self.array.shape[0])

    @property
    def samples(self) -> int:
        """Number of samples S per channel."""
        return int(self.array.shape[1])


@dataclass(frozen=True, slots=True)
class Latent:
    """Latents of one sample: float32 of any shape, and those of a video's sound or None."""

    array: "NDArray[np.float32]"
    audio: "NDArray[np.float32] | None" = None


@dataclass(frozen=True, slots=True)
class Frames:
    """An image or video as an iterable of frames, converted one at a time; may be iterated again and by any thread.

    `array`: uint8 (levels) or float32 (in `value_range`), C-contiguous [T, H, W, C], a view over the payload, valid
    until the payload's slot is released. C is 1 (L), 3 (RGB) or 4 (RGBA) as `color` says; T is 1 for an image. `audio`
    is the sound of a video. `interpolated` is the number of frames per frame of the pipeline.
    """

    array: "NDArray[Any]"
    kind: Kind
    color: ColorModel
    value_range: tuple[float, float] = LEVELS
    audio: Sound | None = None
    interpolated: int = 1

    def __len__(self) -> int:
        """Return the number of frames T."""
        return int(self.array.shape[0])

    @property
    def height(self) -> int:
        """Height H in pixels."""
        return int(self.array.shape[1])

    @property
    def width(self) -> int:
        """Width W in pixels."""
        return int(self.array.shape[2])

    @property
    def channels(self) -> int:
        """Number of channels C per pixel."""
        return int(self.array.shape[3])

    def __iter__(self) -> "Iterator[Frame]":
        """Yield each frame as contiguous uint8 [H, W, C]: a view of a uint8 payload, else one new array per frame."""
        if self.array.dtype.name == "uint8":
            yield from self.array
        else:
            for frame in self.array:
                yield to_uint8(frame, self.value_range)

    def iter_uint16(self) -> "Iterator[DeepFrame]":
        """Yield each frame as contiguous uint16 [H, W, C], 0..65535: from floats, or 257 times a uint8 level."""
        import numpy as np  # loaded by encoders only: `--help` and `validate` import this room too

        for frame in self.array:
            if frame.dtype.name == "uint8":
                yield frame * np.uint16(257)
            else:
                yield _quantize(frame, self.value_range, 65535).astype(np.uint16)

    def iter_float32(self) -> "Iterator[NDArray[np.float32]]":
        """Yield each frame as contiguous float32 [H, W, C] in 0..1: from floats, or levels divided by 255."""
        import numpy as np  # see iter_uint16

        for frame in self.array:
            if frame.dtype.name == "uint8":
                yield frame / np.float32(255)
            else:
                yield _to_unit(frame, self.value_range)


Sample = Frames | Sound | Latent
"""One output of a request."""


def to_uint8(values: "NDArray[np.float32]", value_range: tuple[float, float]) -> "Frame":
    """Quantize `values`, float32 [...] with black and white at `value_range`, to uint8 [...], 0..255.

    Raises NonFiniteOutput for NaN or infinity.
    """
    import numpy as np  # see iter_uint16

    return _quantize(values, value_range, 255).astype(np.uint8)


def _quantize(values: "NDArray[np.float32]", value_range: tuple[float, float], white: int) -> "NDArray[np.float32]":
    """Return whole numbers 0..`white` as float32, in the order of steps that the module describes."""
    import numpy as np  # see iter_uint16

    unit = _to_unit(values, value_range)
    unit *= np.float32(white)
    np.round(unit, out=unit)
    return unit


def _to_unit(values: "NDArray[np.float32]", value_range: tuple[float, float]) -> "NDArray[np.float32]":
    """Return `values` mapped from `value_range` to 0..1 and clipped, as float32."""
    import numpy as np  # see iter_uint16

    if not np.isfinite(values).all():
        raise NonFiniteOutput("the payload holds NaN or infinity, which no level stands for")
    low, high = value_range
    if value_range == NORMALIZED:
        unit = values * np.float32(0.5)
        unit += np.float32(0.5)
    elif value_range == UNIT:
        unit = values.copy()
    else:
        unit = values - np.float32(low)
        unit /= np.float32(high - low)
    np.clip(unit, 0, 1, out=unit)
    return unit


def payload_array(header: MediaHeader, buffer: memoryview | bytes) -> "NDArray[Any]":
    """View the payload as an array of the header's shape and dtype, sound beside a video excluded.

    Raises MediaContractError if header and bytes disagree.
    """
    import numpy as np  # see iter_uint16

    broken = _find_broken_rule(header, memoryview(buffer).nbytes)
    if broken is not None:
        raise MediaContractError(
            f"{header.kind} payload cannot be read: shape {list(header.shape)}, dtype {header.dtype},"
            f" colour model {header.color}: {broken}"
        )
    count = math.prod(header.shape)
    return np.frombuffer(buffer, np.dtype(header.dtype), count).reshape(header.shape)


def split_samples(header: MediaHeader, buffer: memoryview | bytes) -> tuple[Sample, ...]:
    """Return the N samples of a payload in order, each a view over `buffer`. Raises the errors of `payload_array`."""
    parts = payload_array(header, buffer)
    tracks = _audio_tracks(header, buffer)
    if header.kind is Kind.AUDIO:
        assert header.sample_rate is not None
        return tuple(Sound(part, header.sample_rate) for part in parts)
    if header.kind is Kind.LATENT:
        return tuple(Latent(part, track) for part, track in zip(parts, tracks, strict=True))
    rate = header.audio.sample_rate if header.audio is not None else None
    return tuple(
        Frames(
            part,
            header.kind,
            header.color,
            header.value_range,
            None if track is None or rate is None else Sound(track, rate),
            header.interpolated,
        )
        for part, track in zip(parts, tracks, strict=True)
    )


def _audio_tracks(header: MediaHeader, buffer: memoryview | bytes) -> "Sequence[NDArray[np.float32] | None]":
    """Return the sound behind the frames, float32 [C, S] per sample; None where there is none."""
    import numpy as np  # see iter_uint16

    track = header.audio
    if track is None:
        return [None] * header.shape[0]
    values = np.frombuffer(buffer, np.dtype("float32"), math.prod(track.shape), track.offset)
    return list(values.reshape(track.shape))


def _find_broken_rule(header: MediaHeader, nbytes: int) -> str | None:
    """Return the rule that `header` or the number of bytes breaks, or None."""
    itemsize = {"uint8": 1, "float32": 4}.get(header.dtype)
    if itemsize is None:
        return "dtype must be uint8 or float32"
    if len(header.shape) < 2 or min(header.shape) < 1:
        return "every axis must hold at least 1 element, behind a first axis N"
    is_picture = header.kind in (Kind.IMAGE, Kind.VIDEO)
    broken = _find_broken_picture_rule(header) if is_picture else _find_broken_float_rule(header)
    needed = math.prod(header.shape) * itemsize
    track = header.audio
    if broken is None and track is not None:
        if len(track.shape) < 2 or track.shape[0] != header.shape[0] or track.offset < needed:
            return f"sound of shape {list(track.shape)} at byte {track.offset} does not match the frames"
        needed = track.offset + math.prod(track.shape) * 4
    if broken is None and needed != nbytes:
        return f"needs {needed} bytes, {nbytes} arrived"
    return broken


def _find_broken_float_rule(header: MediaHeader) -> str | None:
    """Return the broken rule of audio or latents, or None."""
    if header.dtype != "float32":
        return f"{header.kind} must be float32"
    if header.kind is Kind.AUDIO and (len(header.shape) != 3 or not header.sample_rate):
        return "audio must be [N, C, S] with a sample rate"
    return None


def _find_broken_picture_rule(header: MediaHeader) -> str | None:
    """Return the broken rule of images or video, or None."""
    low, high = header.value_range
    if len(header.shape) != 5:
        return "shape must be [N, T, H, W, C] with every axis at least 1"
    if header.shape[4] != CHANNELS.get(header.color):
        return f"axis C must hold {CHANNELS.get(header.color, 'the')} channels of the colour model"
    if header.kind is Kind.IMAGE and header.shape[1] != 1:
        return "an image has one frame on axis T"
    if header.dtype == "float32" and not low < high:
        return f"value range {low}..{high} is empty"
    return None
