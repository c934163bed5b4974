"""The generic media finalizer: bytes that arrived from a worker become frames, without a copy of the whole.

uint8 payloads are viewed as they are. float32 payloads (device postprocess off) are converted one frame at a time:
denormalize by the value range, clamp, x255, round half to even, uint8. For -1..1 that is diffusers'
`VaeImageProcessor.denormalize`, `(x * 0.5 + 0.5).clamp(0, 1)`, in float32, so the bytes equal its `output_type="np"` rounded.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omni_cli.errors import MediaContractError, NonFiniteOutput
from omni_cli.media import CHANNELS, LEVELS, NORMALIZED, UNIT, ColorModel, Kind, MediaHeader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Frame = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Frames:
    """One sample as a sequence of frames, made as they are asked for; it can be walked any number of times, by any thread.

    `array`: uint8 (levels) or float32 (over `value_range`), C-contiguous [T, H, W, C], a view over the payload: valid until
    the payload's slot is released. C is 1 (L), 3 (RGB) or 4 (RGBA), as `color` says. T is 1 for an image.
    """

    array: "NDArray[Any]"
    kind: Kind
    color: ColorModel
    value_range: tuple[float, float] = LEVELS

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


def to_levels(frame: "NDArray[np.float32]", value_range: tuple[float, float]) -> "Frame":
    """uint8 levels of a float32 array of any shape whose black and white are `value_range`.

    Raises NonFiniteOutput for NaN or infinity, which the worker lets pass in no case.
    """
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
    unit *= np.float32(255)
    np.round(unit, out=unit)
    return unit.astype(np.uint8)


def frames_view(header: MediaHeader, buffer: memoryview | bytes) -> "NDArray[Any]":
    """The payload as [N, T, H, W, C] of the header's dtype, no copy. MediaContractError if header and bytes disagree."""
    import numpy as np  # see to_levels

    broken = _broken_rule(header, memoryview(buffer).nbytes)
    if broken is not None:
        raise MediaContractError(
            f"{header.kind} payload cannot be read: shape {list(header.shape)}, dtype {header.dtype},"
            f" colour model {header.color}: {broken}"
        )
    return np.frombuffer(buffer, np.dtype(header.dtype)).reshape(header.shape)


def samples(header: MediaHeader, buffer: memoryview | bytes) -> tuple[Frames, ...]:
    """The N samples of a payload, in order, each a view over `buffer`. Errors as `frames_view`."""
    return tuple(Frames(part, header.kind, header.color, header.value_range) for part in frames_view(header, buffer))


def _broken_rule(header: MediaHeader, nbytes: int) -> str | None:
    """Name the rule that `header` or the number of bytes breaks, or None."""
    itemsize = {"uint8": 1, "float32": 4}.get(header.dtype)
    low, high = header.value_range
    if header.kind is Kind.AUDIO:
        return "audio has no frames"
    if itemsize is None:
        return "dtype must be uint8 or float32"
    if len(header.shape) != 5 or min(header.shape) < 1:
        return "shape must be [N, T, H, W, C] with every axis at least 1"
    if header.shape[4] != CHANNELS.get(header.color):
        return f"axis C must hold {CHANNELS.get(header.color, 'the')} channels of the colour model"
    if header.kind is Kind.IMAGE and header.shape[1] != 1:
        return "an image has one frame on axis T"
    if header.dtype == "float32" and not low < high:
        return f"value range {low}..{high} is empty"
    if (needed := math.prod(header.shape) * itemsize) != nbytes:
        return f"needs {needed} bytes, {nbytes} arrived"
    return None
