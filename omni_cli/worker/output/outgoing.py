"""What the outbox sends: outputs that become one message each, with their bytes in a slot of the ring or inline.

    Outgoing.encode ── PayloadBuffer.allocate ──> slot or bytearray ── Packer.pack ──> EncodedMessage ──> Outbox

A failure while encoding fails that request alone: its slot is freed, and the outbox sends the error in its place.
"""

import mmap
import time
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import torch

from omni_cli.config import INLINE_BYTES
from omni_cli.log import logger
from omni_cli.media import Media
from omni_cli.platforms.base import Platform
from omni_cli.request import Interval
from omni_cli.transport.messages import OutputReady, encode
from omni_cli.transport.ring import Slot, SlotPool
from omni_cli.worker.output.packer import Packer

INLINE_COPIES = 5
"""Host copies of an inline payload: out of the buffer, into message, frame and socket, and out of the socket."""


def pinned_slot_pool(platform: Platform, budget: int) -> SlotPool:
    """Return a pool of `budget` bytes whose slots are registered with the driver while they are mapped."""

    def address(memory: mmap.mmap) -> int:
        return torch.frombuffer(memory, dtype=torch.uint8).data_ptr()

    def pin(memory: mmap.mmap) -> bool:
        if platform.register_host(address(memory), len(memory)):
            return True
        if platform.pins_host_memory:
            logger.warning(
                "the driver does not pin the output ring (%d bytes): copies from the device are slower; raise the limit"
                " of locked memory (ulimit -l)",
                len(memory),
            )
        return False

    return SlotPool(budget, pin=pin, unpin=lambda memory: platform.unregister_host(address(memory)))


@dataclass(frozen=True, slots=True)
class PackContext:
    """What encoding an output needs: the slots, the packer and the device."""

    pool: SlotPool
    packer: Packer
    platform: Platform


@dataclass(frozen=True, slots=True)
class EncodedMessage:
    """The bytes of a message, and the slot that its payload lies in, if any."""

    data: bytes
    slot: Slot | None = None


class Outgoing(Protocol):
    """Something that the outbox sends: an output, or a part of one."""

    @property
    def output_id(self) -> str:
        """The `async_output_id` of the output."""

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""

    def encode(self, context: PackContext) -> EncodedMessage | None:
        """Return the message, None if there is nothing to send. What this raises is sent as the output's error."""

    def forward(self, platform: Platform) -> Interval | None:
        """Wait for the end of the forward and return its time; None if it goes on or the device has no clock."""

    def with_notes(self, *notes: str) -> "Outgoing | None":
        """Return this output with `notes` added, to be encoded after the forward in progress.

        None if that forward waits for it.
        """


@dataclass(frozen=True, slots=True)
class OutgoingOutput:
    """The decoded output of one request, on the device; `begun` and `done` are the device events around its forward."""

    output_id: str
    media: Media
    begun: Any | None
    done: Any | None

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return self.media.nbytes

    def encode(self, context: PackContext) -> EncodedMessage:
        """Return OutputReady with the output. Raises what packing raises."""
        start = time.monotonic()
        with PayloadBuffer(context.pool) as buffer:
            packed = context.packer.pack(self.media, self.done, buffer.allocate)
            end = time.monotonic()
            slot, forward = buffer.slot, self.forward(context.platform)
            message = OutputReady(
                async_output_id=self.output_id,
                header=packed.header,
                slot=slot.ref(packed.nbytes, context.pool.take_retired()) if slot else None,
                inline=bytes(buffer.inline) if buffer.inline is not None else None,
                host_copies=0 if slot else INLINE_COPIES,
                # Waiting for the forward or for a slot is not output time.
                d2h=output_interval(start if forward is None else forward.end, start, end, buffer.waited),
                forward=forward,
                stopped_at=self.media.stopped_at,
                notes=packed.notes,
            )
            return EncodedMessage(encode(message), slot)

    def forward(self, platform: Platform) -> Interval | None:
        """Wait for the end of the forward and return its time; None if the device has no clock."""
        return forward_interval(platform, self.begun, self.done)

    def with_notes(self, *notes: str) -> "OutgoingOutput":
        """Return this output with `notes` added."""
        return replace(self, media=replace(self.media, notes=(*self.media.notes, *notes)))


@dataclass(slots=True)
class PayloadBuffer:
    """Host memory of one payload: a slot of `pool`, or up to INLINE_BYTES that travel inside the message.

    As a context manager, it frees the memory if the block raises. `waited` are the seconds without a free slot.
    """

    pool: SlotPool
    may_inline: bool = True
    slot: Slot | None = None
    inline: bytearray | None = None
    waited: float = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is not None:
            self._release()

    def allocate(self, nbytes: int) -> Any:
        """Return a writable buffer of at least `nbytes`, in place of the one before. Blocks while no slot is free."""
        self._release()
        if self.may_inline and nbytes <= INLINE_BYTES:
            self.inline = bytearray(nbytes)
            return self.inline
        start = time.monotonic()
        self.slot = self.pool.acquire(nbytes)
        self.waited += time.monotonic() - start
        return self.slot.memory

    def _release(self) -> None:
        if self.slot is not None:
            self.pool.release(self.slot.id)
        self.slot = self.inline = None


def output_interval(ready: float, start: float, end: float, waited: float = 0.0) -> Interval:
    """Return the output time of work from `start` to `end` on what the device had at `ready`, without `waited`.

    The device's clock may be a little ahead of the host's: an interval is never negative.
    """
    return Interval(min(max(start, ready) + waited, end), end)


def forward_interval(platform: Platform, begun: Any | None, done: Any | None) -> Interval | None:
    """Wait for `done` and return the host time between two device events; None where the device has no clock."""
    platform.wait_for(done)  # an event has no time before it has happened
    start, end = platform.host_time(begun), platform.host_time(done)
    return None if start is None or end is None else Interval(min(start, end), end)
