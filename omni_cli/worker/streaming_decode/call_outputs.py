"""The outputs of one call on their way to the outbox: whole after the forward, or in pieces while the VAE decodes."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch

from omni_cli.config import INLINE_BYTES, EngineConfig
from omni_cli.media import Media
from omni_cli.platforms.base import Platform
from omni_cli.request import Interval, PlannedRequest
from omni_cli.transport.messages import OutputPiece, OutputReady, encode
from omni_cli.worker.output.outbox import Outbox
from omni_cli.worker.output.outgoing import (
    EncodedMessage,
    Outgoing,
    OutgoingOutput,
    PackContext,
    PayloadBuffer,
    forward_interval,
    output_interval,
)
from omni_cli.worker.output.postprocess import frames_shape, header_of
from omni_cli.worker.runner_protocol import OnFrames
from omni_cli.writers.formats import VIDEO_CONTAINERS

_UNKNOWN_SIDE = 1024
"""Assumed height and width in pixels of a request that leaves the size to its pipeline."""


class CallOutputs:
    """Sends the outputs of one call. Main thread only."""

    def __init__(
        self,
        outbox: Outbox,
        platform: Platform,
        engine: EngineConfig,
        requests: Sequence[PlannedRequest],
        output_ids: Sequence[str],
    ) -> None:
        """Record the device event before the forward; `output_ids[i]` is the `async_output_id` of `requests[i]`."""
        self._send = outbox.put if engine.async_output else outbox.deliver
        self._platform = platform
        # A check over all frames, or float transport, needs the whole video.
        checks_whole = engine.keep_invalid or engine.fail_on_constant or engine.fail_on_nsfw
        needs_whole = checks_whole or not engine.transport.enable_device_postprocess
        self._can_stream = engine.chunked_decode and not needs_whole and all(map(_can_stream, requests))
        begun = platform.record_device_event()
        self._outputs = [_StreamedOutput(output_id, begun) for output_id in output_ids]
        self._room = threading.Semaphore()

    @property
    def on_frames(self) -> OnFrames | None:
        """Callback for frames that leave during the forward; None if a request of the call must be decoded whole."""
        return self._send_frames if self._can_stream else None

    def _send_frames(self, number: int, media: Media) -> None:
        """Send the next frames of request `number`. Blocks while the piece before waits for its slot."""
        output = self._outputs[number]
        if output.error is not None:
            if all(other.error is not None for other in self._outputs):
                raise output.error
            return
        self._room.acquire()
        self._send([_OutgoingPiece(output, media, self._platform.record_device_event(), self._room)])

    def outgoing(self, number: int, media: Media, done: Any | None) -> Outgoing:
        """Return what is left to send of request `number`, whose forward ends with the device event `done`."""
        output = self._outputs[number]
        if media.streamed:
            return _OutgoingEnd(output, media, done)
        return OutgoingOutput(output.output_id, media, output.begun, done)


def _can_stream(planned: PlannedRequest) -> bool:
    """Return True for a video larger than an inline payload, whose encoder reads uint8 frames once and in order.

    Frame interpolation and encoders of more than 8 bits read floats: they need the whole video.
    """
    request, frames = planned.request, planned.request.num_frames or 1
    if planned.floats_for or (request.interpolate or 1) > 1:
        return False
    nbytes = frames * (request.height or _UNKNOWN_SIDE) * (request.width or _UNKNOWN_SIDE) * 3
    return frames > 1 and request.format in VIDEO_CONTAINERS and nbytes > INLINE_BYTES


@dataclass(slots=True)
class _StreamedOutput:
    """Totals of an output that is sent in pieces; `seconds` is the time of conversion and copy.

    Once `error` is set, it is sent as the OutputReady, and nothing more of this output is.
    """

    output_id: str
    begun: Any | None
    pieces: int = 0
    nbytes: int = 0
    seconds: float = 0.0
    notes: dict[str, None] = field(default_factory=dict)
    error: Exception | None = None


@dataclass(slots=True)
class _OutgoingPiece:
    """The next frames of `output`, valid after the device event `done`.

    A piece always takes a slot, never travels inline: it is the free slots that limit how far the decode runs ahead.
    `room` is released once the piece is packed.
    """

    output: _StreamedOutput
    media: Media
    done: Any | None
    room: threading.Semaphore

    @property
    def output_id(self) -> str:
        """The `async_output_id` of the output."""
        return self.output.output_id

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return self.media.nbytes

    def encode(self, context: PackContext) -> EncodedMessage | None:
        """Return OutputPiece; None if the output has failed before. Raises what packing raises."""
        try:
            return None if self.output.error is not None else self._encode(context)
        except Exception as error:
            self.output.error = error
            raise
        finally:
            self.room.release()

    def forward(self, platform: Platform) -> None:
        """Return None: the forward goes on."""

    def with_notes(self, *notes: str) -> None:
        """Return None: the decode waits for its pieces."""

    def _encode(self, context: PackContext) -> EncodedMessage:
        output, start = self.output, time.monotonic()
        with PayloadBuffer(context.pool, may_inline=False) as buffer:
            packed = context.packer.pack(self.media, self.done, buffer.allocate)
            slot, done = buffer.slot, context.platform.host_time(self.done)
            assert slot is not None
            output.pieces += 1
            output.nbytes += packed.nbytes
            output.seconds += output_interval(done or start, start, time.monotonic(), buffer.waited).seconds
            output.notes |= dict.fromkeys(packed.notes)
            sample, frame = self.media.offset
            message = OutputPiece(
                async_output_id=self.output_id,
                first_sample=sample,
                first_frame=frame,
                header=packed.header,
                slot=slot.ref(packed.nbytes, context.pool.take_retired()),
            )
            return EncodedMessage(encode(message), slot)


@dataclass(slots=True)
class _OutgoingEnd:
    """The end of `output`, whose pieces have all been sent; `media` has its shape, notes and `stopped_at`."""

    nbytes: ClassVar[int] = 0

    output: _StreamedOutput
    media: Media
    done: Any | None

    @property
    def output_id(self) -> str:
        """The `async_output_id` of the output."""
        return self.output.output_id

    def encode(self, context: PackContext) -> EncodedMessage | None:
        """Return the OutputReady that ends the pieces; None if the output has failed."""
        output, end = self.output, time.monotonic()
        if output.error is not None:
            return None
        message = OutputReady(
            async_output_id=self.output_id,
            header=header_of(self.media, frames_shape(self.media), torch.uint8),
            pieces=output.pieces,
            piece_bytes=output.nbytes,
            d2h=Interval(end - output.seconds, end),
            forward=self.forward(context.platform),
            stopped_at=self.media.stopped_at,
            notes=tuple(output.notes | dict.fromkeys(self.media.notes)),
        )
        return EncodedMessage(encode(message))

    def forward(self, platform: Platform) -> Interval | None:
        """Wait for the end of the forward and return its time; None if the device has no clock."""
        return forward_interval(platform, self.output.begun, self.done)

    def with_notes(self, *notes: str) -> "_OutgoingEnd":
        """Return the same with `notes` added."""
        return replace(self, media=replace(self.media, notes=(*self.media.notes, *notes)))
