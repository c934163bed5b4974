"""Pack a decoded tensor on the device into bytes in host memory: uint8 by default, each output exactly once.

CPU          levels are written straight into the buffer, frame by frame: no copy
accelerator  conversion on the side stream, then one DMA into the buffer
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch

from omni_cli.config import VideoOutputTransport
from omni_cli.errors import NsfwContent, OutOfDeviceMemory
from omni_cli.media import Media, MediaHeader, TrackHeader
from omni_cli.platforms.base import Platform
from omni_cli.worker.output.interpolate import Interpolator
from omni_cli.worker.output.output_check import STRICT, OutputPolicy
from omni_cli.worker.output.postprocess import frames_shape, header_of, wants_levels, write_floats, write_levels

Allocate = Callable[[int], Any]
"""Takes a number of bytes and returns a writable buffer of at least that size."""

TRACK_ALIGNMENT = 64
"""The audio track starts at a multiple of so many bytes."""

OUT_OF_MEMORY_NOTE = "no device memory for the uint8 conversion: it was done on the host"


@dataclass(frozen=True, slots=True)
class Packed:
    """Meaning of the bytes in the buffer; `notes` are fall-backs of the forward and the packing, and faults kept."""

    header: MediaHeader
    nbytes: int
    notes: tuple[str, ...] = ()


class Packer:
    """Packs outputs for transport. One thread at a time."""

    def __init__(self, platform: Platform, transport: VideoOutputTransport, policy: OutputPolicy = STRICT) -> None:
        """`transport`: uint8 frames, or floats as they are. `policy`: what makes an output fail."""
        self.interpolator = Interpolator()
        """Makes the frames between frames. Set it only while nothing is being packed."""
        self._platform = platform
        self._transport = transport
        self._policy = policy

    def pack(self, media: Media, after: Any | None, allocate: Allocate) -> Packed:
        """Write `media` into a buffer from `allocate`, after the device event `after`; return when the bytes are there.

        If the device runs out of memory in the conversion, copy frame by frame as they are and convert on the host.
        Raises MediaContractError before `allocate` is called if `media` is malformed, NsfwContent, NonFiniteOutput or
        ConstantOutput as the policy says, OutOfDeviceMemory, and whatever else the device raises.
        """
        if media.nsfw and self._policy.fail_on_nsfw:
            raise NsfwContent(f"{media.nsfw}; try another prompt or seed, or keep it without --fail-on-nsfw")
        dtype = torch.uint8 if wants_levels(media, self._transport) else torch.float32
        if media.data.device.type == "cpu":
            return self._convert_on_host(media, after, allocate, dtype)
        try:
            return self._transfer(media, after, allocate, dtype)
        except (RuntimeError, MemoryError) as error:
            if not self._platform.is_out_of_memory(error):
                raise
        # Outside the except block: the exception's traceback would keep the conversion's tensors alive.
        self._platform.empty_cache()
        try:
            packed = self._convert_on_host(media, after, allocate, dtype)
        except (RuntimeError, MemoryError) as error:
            if not self._platform.is_out_of_memory(error):
                raise
            raise OutOfDeviceMemory(f"out of device memory while the output is copied to the host: {error}") from error
        return replace(packed, notes=(*packed.notes, OUT_OF_MEMORY_NOTE))

    def _convert_on_host(self, media: Media, after: Any | None, allocate: Allocate, dtype: torch.dtype) -> Packed:
        """Write each frame into the buffer, copied from the device in its own dtype where it is on one."""
        header, arrays = _layout(media, dtype)
        nbytes, notes = arrays[-1].end, media.notes
        with self._platform.side_stream(after):
            buffer = allocate(nbytes)
            for array in arrays:
                self._platform.keep_alive(array.media.data)
                notes += self._write(array, array.view_of(buffer))
        return Packed(header, nbytes, notes)

    def _transfer(self, media: Media, after: Any | None, allocate: Allocate, dtype: torch.dtype) -> Packed:
        """Convert on the device and copy the result."""
        header, arrays = _layout(media, dtype)
        nbytes, notes = arrays[-1].end, media.notes
        with self._platform.side_stream(after):
            converted = []
            for array in arrays:
                self._platform.keep_alive(array.media.data)
                out = torch.empty(array.shape, dtype=array.dtype, device=array.media.data.device)
                notes += self._write(array, out)
                converted.append(out)
            buffer = allocate(nbytes)
            for array, out in zip(arrays, converted, strict=True):
                array.view_of(buffer).copy_(out, non_blocking=True)
        return Packed(header, nbytes, notes)

    def _write(self, array: "_Array", out: torch.Tensor) -> tuple[str, ...]:
        """Convert one array into `out`, of its shape and dtype; return notes on faults kept."""
        write = write_levels if array.dtype is torch.uint8 else write_floats
        return write(array.media, out, self._policy, self.interpolator)


@dataclass(frozen=True, slots=True)
class _Array:
    """One array of the payload: `media` as `dtype` of `shape`, `offset` bytes from the start."""

    media: Media
    shape: tuple[int, ...]
    dtype: torch.dtype
    offset: int

    @property
    def end(self) -> int:
        """Offset of the first byte after it."""
        return self.offset + torch.Size(self.shape).numel() * self.dtype.itemsize

    def view_of(self, buffer: Any) -> torch.Tensor:
        """Return a tensor over this array's bytes in `buffer`, without a copy."""
        count = torch.Size(self.shape).numel()
        return torch.frombuffer(buffer, dtype=self.dtype, count=count, offset=self.offset).view(self.shape)


def _layout(media: Media, dtype: torch.dtype) -> tuple[MediaHeader, list[_Array]]:
    """Lay out the payload of `media`: the frames as `dtype` first, the audio track as float32 behind them."""
    main = _Array(media, frames_shape(media), dtype, 0)
    header = header_of(media, main.shape, dtype)
    if media.audio is None:
        return header, [main]
    offset = -(-main.end // TRACK_ALIGNMENT) * TRACK_ALIGNMENT
    track = _Array(media.audio, frames_shape(media.audio), torch.float32, offset)
    track_header = TrackHeader(shape=track.shape, offset=offset, sample_rate=media.audio.spec.sample_rate)
    return msgspec.structs.replace(header, audio=track_header), [main, track]
