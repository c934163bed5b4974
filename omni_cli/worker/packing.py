"""From a decoded tensor on the device to its bytes in host memory: uint8 by default, each output exactly once.

On an accelerator the conversion runs on the side stream and the copy lands in the slot by DMA. On the CPU the levels are
written straight into the slot, frame by frame: there is no copy at all.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch

from omni_cli.config import VideoOutputTransport
from omni_cli.log import logger
from omni_cli.media import Media, MediaHeader, TrackHeader
from omni_cli.platforms.base import Platform
from omni_cli.worker.interpolate import Interpolator
from omni_cli.worker.postprocess import frames_shape, header_of, wants_levels, write_floats, write_levels
from omni_cli.worker.validity import STRICT, Validity

Allocate = Callable[[int], Any]
"""Bytes wanted -> a writable buffer of at least that size."""

TRACK_ALIGNMENT = 64
"""Sound begins at a multiple of so many bytes behind the frames."""

OUT_OF_MEMORY_NOTE = "no device memory for the uint8 conversion: float transport"


@dataclass(frozen=True, slots=True)
class Packed:
    """What the bytes in the buffer mean; `notes` are fall-backs taken, by the forward and here, and faults let pass."""

    header: MediaHeader
    nbytes: int
    notes: tuple[str, ...] = ()


class Packer:
    """Prepares outputs for transport. One thread at a time."""

    def __init__(
        self,
        platform: Platform,
        transport: VideoOutputTransport,
        validity: Validity = STRICT,
    ) -> None:
        """`transport` is the policy: uint8 frames, or the normalized floats as they are. `validity`: which are refused.

        Frames that a video is to be given are blended, until `fill_with`.
        """
        self._platform = platform
        self._transport = transport
        self._validity = validity
        self._between = Interpolator()
        self._warned = False

    def fill_with(self, between: Interpolator) -> None:
        """Make the frames between with `between` from now on; nothing may be on its way."""
        self._between = between

    def pack(self, media: Media, after: Any | None, allocate: Allocate) -> Packed:
        """Write `media` into a buffer from `allocate`, behind the device event `after`; finished when it returns.

        Out of device memory in the uint8 conversion is one warning and float transport; anything else raises, above all
        NonFiniteOutput and ConstantOutput for an output that is not right.
        """
        if not wants_levels(media, self._transport):
            return self._transfer(media, after, allocate, torch.float32)
        try:
            return self._transfer(media, after, allocate, torch.uint8)
        except (RuntimeError, MemoryError) as error:
            if not self._platform.is_out_of_memory(error):
                raise
        # Outside the except block: the exception's traceback would keep the conversion's tensors alive.
        self._platform.empty_cache()
        if not self._warned:
            logger.warning("%s", OUT_OF_MEMORY_NOTE)
            self._warned = True
        packed = self._transfer(media, after, allocate, torch.float32)
        return replace(packed, notes=(*packed.notes, OUT_OF_MEMORY_NOTE))

    def _transfer(self, media: Media, after: Any | None, allocate: Allocate, dtype: torch.dtype) -> Packed:
        plan = _Plan.of(media, dtype)
        if media.data.device.type == "cpu":
            buffer = allocate(plan.nbytes)
            notes = tuple(note for part in plan.parts for note in self._write(part, part.over(buffer)))
            return Packed(plan.header, plan.nbytes, (*media.notes, *notes))
        with self._platform.side_stream(after):
            prepared, notes = [], ()
            for part in plan.parts:
                self._platform.keep_alive(part.media.data)
                out = torch.empty(part.shape, dtype=part.dtype, device=part.media.data.device)
                notes += self._write(part, out)
                prepared.append(out)
            buffer = allocate(plan.nbytes)
            for part, out in zip(plan.parts, prepared, strict=True):
                part.over(buffer).copy_(out, non_blocking=True)
        return Packed(plan.header, plan.nbytes, (*media.notes, *notes))

    def _write(self, part: "_Part", out: torch.Tensor) -> tuple[str, ...]:
        """Convert one part into `out`; notes on what was let pass."""
        if part.dtype is torch.uint8:
            return write_levels(part.media, out, self._validity, self._between)
        return write_floats(part.media, out, self._validity, self._between)


@dataclass(frozen=True, slots=True)
class _Part:
    """One array of the payload: `media` as `dtype` of `shape`, `offset` bytes into it."""

    media: Media
    shape: tuple[int, ...]
    dtype: torch.dtype
    offset: int

    @property
    def end(self) -> int:
        """Offset of the first byte behind it."""
        return self.offset + torch.Size(self.shape).numel() * self.dtype.itemsize

    def over(self, buffer: Any) -> torch.Tensor:
        """A tensor over its bytes in `buffer`, without a copy."""
        count = torch.Size(self.shape).numel()
        return torch.frombuffer(buffer, dtype=self.dtype, count=count, offset=self.offset).view(self.shape)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where the arrays of an output lie: the frames first, the sound behind them."""

    header: MediaHeader
    parts: tuple[_Part, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the whole payload."""
        return self.parts[-1].end

    @classmethod
    def of(cls, media: Media, dtype: torch.dtype) -> "_Plan":
        """The plan for `media`, its frames as `dtype`."""
        main = _Part(media, frames_shape(media), dtype, 0)
        header = header_of(media, main.shape, dtype)
        if media.audio is None:
            return cls(header, (main,))
        offset = -(-main.end // TRACK_ALIGNMENT) * TRACK_ALIGNMENT
        track = _Part(media.audio, frames_shape(media.audio), torch.float32, offset)
        described = TrackHeader(shape=track.shape, offset=offset, sample_rate=media.audio.spec.sample_rate)
        return cls(msgspec.structs.replace(header, audio=described), (main, track))
