"""The generic media finalizer: bytes that arrived from a worker become frames, without a copy of the whole.

uint8 payloads are viewed as they are. float32 payloads (device postprocess off) are converted one frame at a time:
denormalize by the value range, clamp, x255, round half to even, uint8. For -1..1 that is diffusers'
`VaeImageProcessor.denormalize`, `(x * 0.5 + 0.5).clamp(0, 1)`, in float32, so the bytes equal its `output_type="np"` rounded.
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
    """`array`: float32 [C, S] over -1..1, C-contiguous, a view over the payload as that of Frames. `sample_rate` in Hz."""

    array: "NDArray[np.float32]"
    sample_rate: int

    @property
    def channels(self) -> int:
        """Number of channels C."""
        return int(self.array.shape[0])

    @property
    def samples(self) -> int:
        """Samples S of each channel."""
        return int(self.array.shape[1])


@dataclass(frozen=True, slots=True)
class Latent:
    """What a decoder would be given: float32 of any shape, and that of the sound beside a video, if there is any."""

    array: "NDArray[np.float32]"
    audio: "NDArray[np.float32] | None" = None


@dataclass(frozen=True, slots=True)
class Frames:
    """One sample as a sequence of frames, made as they are asked for; it can be walked any number of times, by any thread.

    `array`: uint8 (levels) or float32 (over `value_range`), C-contiguous [T, H, W, C], a view over the payload: valid until
    the payload's slot is released. C is 1 (L), 3 (RGB) or 4 (RGBA), as `color` says. T is 1 for an image. `audio` is the sound of
    a video; `interpolated` the frames that stand for each of the pipeline's.
    """

    array: "NDArray[Any]"
    kind: Kind
    color: ColorModel
    value_range: tuple[float, float] = LEVELS
    audio: Sound | None = None
    interpolated: int = 1

    def __len__(self) -> int:
        """Number of frames T."""
        return int(self.array.shape[0])

    @property
    def height(self) -> int:
        """Rows in pixels."""
        return int(self.array.shape[1])

    @property
    def width(self) -> int:
        """Columns in pixels."""
        return int(self.array.shape[2])

    @property
    def channels(self) -> int:
        """Channels of a pixel."""
        return int(self.array.shape[3])

    def __iter__(self) -> "Iterator[Frame]":
        """Each frame as contiguous uint8 [H, W, C]: a view where the payload is uint8, else a fresh array of one frame."""
        if self.array.dtype.name == "uint8":
            yield from self.array
        else:
            for frame in self.array:
                yield to_levels(frame, self.value_range)

    def deep(self) -> "Iterator[DeepFrame]":
        """Each frame as contiguous uint16 [H, W, C], 0..65535: from the floats where they are there, else x257, which is exact."""
        import numpy as np  # see _scaled

        for frame in self.array:
            if frame.dtype.name == "uint8":
                yield frame * np.uint16(257)
            else:
                yield _scaled(frame, self.value_range, 65535).astype(np.uint16)


Sample = Frames | Sound | Latent
"""One output of a request."""


def to_levels(frame: "NDArray[np.float32]", value_range: tuple[float, float]) -> "Frame":
    """uint8 levels of a float32 array of any shape whose black and white are `value_range`.

    Raises NonFiniteOutput for NaN or infinity, which the worker lets pass in no case.
    """
    import numpy as np  # see _scaled

    return _scaled(frame, value_range, 255).astype(np.uint8)


def _scaled(frame: "NDArray[np.float32]", value_range: tuple[float, float], white: int) -> "NDArray[np.float32]":
    """Whole numbers 0..`white`, as float32; see the module's text for the order of the steps."""
    import numpy as np  # `--help` and `validate` import this room's facts, not its arrays

    if not np.isfinite(frame).all():
        raise NonFiniteOutput("the payload holds NaN or infinity, which no level stands for")
    low, high = value_range
    if value_range == NORMALIZED:
        unit = frame * np.float32(0.5)
        unit += np.float32(0.5)
    elif value_range == UNIT:
        unit = frame.copy()
    else:
        unit = frame - np.float32(low)
        unit /= np.float32(high - low)
    np.clip(unit, 0, 1, out=unit)
    unit *= np.float32(white)
    np.round(unit, out=unit)
    return unit


def frames_view(header: MediaHeader, buffer: memoryview | bytes) -> "NDArray[Any]":
    """The payload (of audio or latents too) as an array of the header's shape and dtype, no copy.

    MediaContractError if header and bytes disagree.
    """
    import numpy as np  # see _scaled

    broken = _broken_rule(header, memoryview(buffer).nbytes)
    if broken is not None:
        raise MediaContractError(
            f"{header.kind} payload cannot be read: shape {list(header.shape)}, dtype {header.dtype},"
            f" colour model {header.color}: {broken}"
        )
    count = math.prod(header.shape)
    return np.frombuffer(buffer, np.dtype(header.dtype), count).reshape(header.shape)


def samples(header: MediaHeader, buffer: memoryview | bytes) -> tuple[Sample, ...]:
    """The N samples of a payload, in order, each a view over `buffer`. Errors as `frames_view`."""
    parts = frames_view(header, buffer)
    tracks = _tracks(header, buffer)
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


def _tracks(header: MediaHeader, buffer: memoryview | bytes) -> "Sequence[NDArray[np.float32] | None]":
    """What lies behind the frames for each sample."""
    import numpy as np  # see _scaled

    track = header.audio
    if track is None:
        return [None] * header.shape[0]
    values = np.frombuffer(buffer, np.dtype("float32"), math.prod(track.shape), track.offset)
    return list(values.reshape(track.shape))


def _broken_rule(header: MediaHeader, nbytes: int) -> str | None:
    """Name the rule that `header` or the number of bytes breaks, or None."""
    itemsize = {"uint8": 1, "float32": 4}.get(header.dtype)
    if itemsize is None:
        return "dtype must be uint8 or float32"
    if len(header.shape) < 2 or min(header.shape) < 1:
        return "every axis must hold at least 1 element, behind a first axis N"
    broken = _broken_axes(header) if header.kind in (Kind.IMAGE, Kind.VIDEO) else _broken_floats(header)
    needed = math.prod(header.shape) * itemsize
    track = header.audio
    if broken is None and track is not None:
        if len(track.shape) < 2 or track.shape[0] != header.shape[0] or track.offset < needed:
            return f"sound of shape {list(track.shape)} at byte {track.offset} cannot go along"
        needed = track.offset + math.prod(track.shape) * 4
    if broken is None and needed != nbytes:
        return f"needs {needed} bytes, {nbytes} arrived"
    return broken


def _broken_floats(header: MediaHeader) -> str | None:
    """The rules of audio and latents."""
    if header.dtype != "float32":
        return f"{header.kind} must be float32"
    if header.kind is Kind.AUDIO and (len(header.shape) != 3 or not header.sample_rate):
        return "audio must be [N, C, S] with a sample rate"
    return None


def _broken_axes(header: MediaHeader) -> str | None:
    """The rules of images and video."""
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
