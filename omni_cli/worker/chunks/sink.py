"""The way from a decoder to the outbox (see `protocol.Sink`), for the requests of one call."""

from collections.abc import Sequence
from typing import Any

from omni_cli.media import Media
from omni_cli.platforms.base import Platform
from omni_cli.worker.outbox import Outbox
from omni_cli.worker.parcels import Clip, ClipEnd, Output, Parcel, Piece
from omni_cli.worker.protocol import Streamed


class OutboxSink:
    """Pieces go to `outbox` as they come: to its thread, or with `wait` (--no-async) one by one on the caller's."""

    def __init__(
        self, outbox: Outbox, platform: Platform, output_ids: Sequence[str], begun: Any | None, *, wait: bool
    ) -> None:
        """`begun` is the device event before the forward."""
        self._give = outbox.deliver if wait else outbox.put
        self._platform = platform
        self._clips = [Clip(output_id, begun) for output_id in output_ids]

    def send(self, owner: int, media: Media) -> None:
        """Put the frames behind a device event of their own. Raises why the last request that wanted any has failed."""
        clip = self._clips[owner]
        if clip.error is not None:
            if all(other.error is not None for other in self._clips):
                raise clip.error
            return
        self._give([Piece(clip, media, self._platform.record_device_event())])

    def parcel(self, owner: int, made: Media | Streamed, done: Any | None) -> Parcel:
        """What is left to send of request `owner` when its forward is over."""
        clip = self._clips[owner]
        if isinstance(made, Streamed):
            return ClipEnd(clip, made, done)
        return Output(clip.output_id, made, clip.begun, done)
