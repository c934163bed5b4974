"""From a decoded tensor on the device to its bytes in host memory: uint8 by default, each output exactly once.

On an accelerator the conversion runs on the side stream and the copy lands in the slot by DMA. On the CPU the levels are
written straight into the slot, frame by frame: there is no copy at all.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from omni_cli.config import VideoOutputTransport
from omni_cli.log import logger
from omni_cli.media import Media
from omni_cli.platforms.base import Platform
from omni_cli.transport.messages import MediaHeader
from omni_cli.worker.postprocess import frames_shape, header_of, wants_levels, write_floats, write_levels
from omni_cli.worker.validity import STRICT, Validity

Allocate = Callable[[int], Any]
"""Bytes wanted -> a writable buffer of at least that size."""

OUT_OF_MEMORY_NOTE = "no device memory for the uint8 conversion: float transport"


@dataclass(frozen=True, slots=True)
class Packed:
    """What the bytes in the buffer mean; `notes` are fall-backs taken, by the forward and here, and faults let pass."""

    header: MediaHeader
    nbytes: int
    notes: tuple[str, ...] = ()


class Packer:
    """Prepares outputs for transport. One thread at a time."""

    def __init__(self, platform: Platform, transport: VideoOutputTransport, validity: Validity = STRICT) -> None:
        """`transport` is the policy: uint8 frames, or the normalized floats as they are. `validity`: which are refused."""
        self._platform = platform
        self._transport = transport
        self._validity = validity
        self._warned = False

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
        shape = frames_shape(media)
        header = header_of(media, shape, dtype)
        write = write_levels if dtype is torch.uint8 else write_floats
        nbytes = torch.Size(shape).numel() * dtype.itemsize
        if media.data.device.type == "cpu":
            notes = write(media, _tensor_over(allocate(nbytes), shape, dtype), self._validity)
            return Packed(header, nbytes, (*media.notes, *notes))
        with self._platform.side_stream(after):
            self._platform.keep_alive(media.data)
            prepared = torch.empty(shape, dtype=dtype, device=media.data.device)
            notes = write(media, prepared, self._validity)
            _tensor_over(allocate(nbytes), shape, dtype).copy_(prepared, non_blocking=True)
        return Packed(header, nbytes, (*media.notes, *notes))


def _tensor_over(buffer: Any, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of `shape` over the first bytes of `buffer`, without a copy."""
    return torch.frombuffer(buffer, dtype=dtype, count=torch.Size(shape).numel()).view(shape)
