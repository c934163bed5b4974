"""What leaves a worker by its outbox: an output, a piece of one, or the word that all pieces of one have left.

Each knows how to become one message. A fault in that fails its request alone: its slot is free and nothing is half-sent.
"""

import time
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from omni_cli.config import INLINE_BYTES
from omni_cli.media import LEVELS, Media, MediaHeader
from omni_cli.platforms.base import Platform
from omni_cli.request import Interval
from omni_cli.transport.messages import OutputPiece, OutputReady, encode
from omni_cli.transport.ring import Slot, SlotPool
from omni_cli.worker.faults import remote_error
from omni_cli.worker.packing import Packed, Packer
from omni_cli.worker.protocol import Streamed

Packet = tuple[bytes, tuple[int, ...], Slot | None]
"""An encoded message, the descriptors that go with it, and the slot that its payload lies in."""

INLINE_COPIES = 5
"""Out of the buffer, into the message, into the frame, into the socket, out of it: what a slot saves larger payloads."""


@dataclass(frozen=True, slots=True)
class Dock:
    """Where parcels are packed."""

    pool: SlotPool
    packer: Packer
    platform: Platform


class Parcel(Protocol):
    """Something to be sent. `piece`: no other piece may wait behind it."""

    piece: ClassVar[bool]

    @property
    def nbytes(self) -> int:
        """Bytes it holds on the device."""

    def packet(self, dock: Dock) -> Packet | None:
        """Its message; None if there is nothing to be said."""


@dataclass(slots=True)
class Output:
    """One request's decoded output on the device; `begun` and `done` are the events around its forward."""

    piece: ClassVar[bool] = False

    output_id: str
    media: Media
    begun: Any | None
    done: Any | None

    @property
    def nbytes(self) -> int:
        """Bytes it holds on the device."""
        return self.media.nbytes

    def packet(self, dock: Dock) -> Packet:
        """OUTPUT_READY with the output, or with why there is none."""
        buffer, start = Buffer(dock.pool), time.monotonic()
        try:
            return self._told(dock, dock.packer.pack(self.media, self.done, buffer.allocate), buffer, start)
        except Exception as error:  # boundary: whatever packing raises fails this request, not the worker
            buffer.give_back()
            return _failure(self.output_id, error, start)

    def _told(self, dock: Dock, packed: Packed, buffer: "Buffer", start: float) -> Packet:
        """The message of an output that was packed into `buffer` from the time `start` on."""
        slot = buffer.slot
        begun, done = dock.platform.host_time(self.begun), dock.platform.host_time(self.done)
        if done is not None:
            start = max(start, done)  # waiting for the forward is not output time
        message = OutputReady(
            async_output_id=self.output_id,
            header=packed.header,
            slot=slot.ref(packed.nbytes, dock.pool.take_retired()) if slot else None,
            inline=bytes(buffer.inline) if buffer.inline is not None else None,
            host_copies=0 if slot else INLINE_COPIES,
            d2h=Interval(start, time.monotonic()),
            forward=None if begun is None or done is None else Interval(begun, done),
            stopped_at=self.media.stopped_at,
            notes=packed.notes,
        )
        return encode(message), (slot.fd,) if slot and slot.fresh else (), slot


@dataclass(slots=True)
class Clip:
    """A request whose output leaves in pieces. Once `error` is set its OUTPUT_READY has been sent, and nothing more is.

    `seconds` were spent on converting and copying, `nbytes` were moved.
    """

    output_id: str
    begun: Any | None
    pieces: int = 0
    nbytes: int = 0
    seconds: float = 0.0
    notes: dict[str, None] = field(default_factory=dict)
    error: Exception | None = None


@dataclass(slots=True)
class Piece:
    """The next frames of `clip`, behind the device event `done`. They always take a slot: a free one is what lets more be decoded."""

    piece: ClassVar[bool] = True

    clip: Clip
    media: Media
    done: Any | None

    @property
    def nbytes(self) -> int:
        """Bytes it holds on the device."""
        return self.media.nbytes

    def packet(self, dock: Dock) -> Packet | None:
        """OUTPUT_PIECE; OUTPUT_READY with the error if it is not right; None once its clip has failed."""
        clip = self.clip
        if clip.error is not None:
            return None
        buffer, start = Buffer(dock.pool, small=False), time.monotonic()
        try:
            return self._told(dock, dock.packer.pack(self.media, self.done, buffer.allocate), buffer, start)
        except Exception as error:  # boundary: as for a whole output
            buffer.give_back()
            clip.error = error
            return _failure(clip.output_id, error, start)

    def _told(self, dock: Dock, packed: Packed, buffer: "Buffer", start: float) -> Packet:
        """The message of a piece, which is counted."""
        clip, slot, done = self.clip, buffer.slot, dock.platform.host_time(self.done)
        assert slot is not None
        clip.pieces += 1
        clip.nbytes += packed.nbytes
        clip.seconds += time.monotonic() - max(start, done or start)
        clip.notes |= dict.fromkeys(packed.notes)
        sample, frame = self.media.first
        message = OutputPiece(
            async_output_id=clip.output_id,
            first_sample=sample,
            first_frame=frame,
            header=packed.header,
            slot=slot.ref(packed.nbytes, dock.pool.take_retired()),
        )
        return encode(message), (slot.fd,) if slot.fresh else (), slot


@dataclass(slots=True)
class ClipEnd:
    """All pieces of `clip` have been put; `done` is the event behind its forward."""

    piece: ClassVar[bool] = False
    nbytes: ClassVar[int] = 0

    clip: Clip
    streamed: Streamed
    done: Any | None

    def packet(self, dock: Dock) -> Packet | None:
        """OUTPUT_READY that ends the pieces; None if the clip has failed."""
        clip, spec, end = self.clip, self.streamed.spec, time.monotonic()
        if clip.error is not None:
            return None
        begun, done = dock.platform.host_time(clip.begun), dock.platform.host_time(self.done)
        message = OutputReady(
            async_output_id=clip.output_id,
            header=MediaHeader(
                kind=spec.kind, dtype="uint8", shape=self.streamed.shape, color=spec.color, value_range=LEVELS
            ),
            pieces=clip.pieces,
            piece_bytes=clip.nbytes,
            d2h=Interval(end - clip.seconds, end),
            forward=None if begun is None or done is None else Interval(begun, done),
            stopped_at=self.streamed.stopped_at,
            notes=tuple(clip.notes | dict.fromkeys(self.streamed.notes)),
        )
        return encode(message), (), None


@dataclass(slots=True)
class Buffer:
    """Where one tensor's bytes went: a slot of the ring, or a small buffer (unless not `small`) that travels inside the message."""

    pool: SlotPool
    slot: Slot | None = None
    inline: bytearray | None = None
    small: bool = True

    def allocate(self, nbytes: int) -> Any:
        """At most 1 MB inline, else a slot. A second call (after a fall-back) gives the first one's slot back."""
        self.give_back()
        if self.small and nbytes <= INLINE_BYTES:
            self.inline = bytearray(nbytes)
            return self.inline
        self.slot = self.pool.acquire(nbytes)
        return self.slot.memory

    def give_back(self) -> None:
        """Release what was taken; nothing was sent."""
        if self.slot is not None:
            self.pool.release(self.slot.id)
        self.slot = self.inline = None


def _failure(output_id: str, error: Exception, start: float) -> Packet:
    """OUTPUT_READY of a request that failed in packing."""
    took = Interval(start, time.monotonic())
    return encode(OutputReady(async_output_id=output_id, error=remote_error(error), d2h=took)), (), None
