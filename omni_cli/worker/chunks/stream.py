"""From the frames of a pipeline's call to those of each request, and what became of them in the end.

A request whose frames have begun to leave gets all of its outputs this way: one that was made whole after all (its decode was
repeated with less memory, say) follows as a single piece that starts its clip anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from omni_cli.config import INLINE_BYTES, EngineConfig
from omni_cli.errors import RequestCancelled
from omni_cli.media import Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.request import PlannedRequest
from omni_cli.worker.chunks.standin import StandIn
from omni_cli.worker.collect import Sample, color_of, join, samples_of
from omni_cli.worker.protocol import Sink, Streamed
from omni_cli.writers.formats import FRAME_STREAMS

_UNKNOWN_SIDE = 1024
"""Pixels, where a request leaves the size to its pipeline."""


def streams(engine: EngineConfig, requests: Sequence[PlannedRequest]) -> bool:
    """True if the frames of `requests`, which share a call, may leave before their videos are finished.

    That takes formats whose encoders walk over the frames once; levels (a float consumer, such as frame interpolation or an encoder
    of more than 8 bits, wants the whole); checks that judge frames one by one; and more than the 1 MB that travel inside a message.
    """
    whole = engine.keep_invalid or engine.fail_on_constant or not engine.transport.enable_device_postprocess
    return engine.chunked_decode and not whole and all(_may_leave(planned) for planned in requests)


def _may_leave(planned: PlannedRequest) -> bool:
    request = planned.request
    if planned.floats_for or (request.interpolate or 1) > 1:
        return False
    frames = request.num_frames or 1
    nbytes = frames * (request.height or _UNKNOWN_SIDE) * (request.width or _UNKNOWN_SIDE) * 3
    return frames > 1 and request.format in FRAME_STREAMS and nbytes > INLINE_BYTES


@dataclass(frozen=True, slots=True)
class _Rows:
    """`count` rows from `row` on, of a call's batch, are the outputs from `sample` on of request `owner`."""

    owner: int
    row: int
    count: int
    sample: int


class RequestStreams:
    """The frames of one batch of requests, over all its pipeline calls."""

    def __init__(self, sink: Sink, value_range: tuple[float, float], stop: Callable[[], bool]) -> None:
        """`value_range`: floats that mean black and white in what the decoder makes."""
        self._sink = sink
        self._range = value_range
        self._stop = stop
        self._rows: list[_Rows] = []

    def begin(self, owners: Sequence[int], done: Sequence[int]) -> None:
        """The next call makes a sample for each of `owners`; `done` are the owners of the samples of the calls before it."""
        self._rows = [
            _Rows(owner, owners.index(owner), owners.count(owner), done.count(owner)) for owner in dict.fromkeys(owners)
        ]

    def emit(self, frames: torch.Tensor, first_frame: int) -> None:
        """Send `frames` [B, C, t, H, W] on. Raises RequestCancelled, or why no request has a use for more."""
        if self._stop():
            raise RequestCancelled(f"cancelled at frame {first_frame} of the decode")
        for rows in self._rows:
            part = frames[rows.row : rows.row + rows.count]
            self._sink.send(rows.owner, Media(self._spec(frames), part, first=(rows.sample, first_frame)))

    def _spec(self, frames: torch.Tensor) -> MediaSpec:
        return MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, self._range, color_of(frames.shape[1]))

    def settle(self, medias: Sequence[Media], owners: Sequence[int], count: int) -> list[Media | Streamed]:
        """Request-local results: as `collect.split` gives them, or what there is to say of an output that has left."""
        return [self._settle(owner, samples) for owner, samples in enumerate(samples_of(medias, owners, count))]

    def _settle(self, owner: int, samples: Sequence[Sample]) -> Media | Streamed:
        left = [media for media, _ in samples if isinstance(media.data, StandIn)]
        if not left:
            return join(samples)
        for place, (media, index) in enumerate(samples):
            if not isinstance(media.data, StandIn):
                self._sink.send(owner, Media(media.spec, media.data[index : index + 1], first=(place, 0)))
        _, channels, frames, height, width = left[0].data.shape
        return Streamed(left[0].spec, (len(samples), frames, height, width, channels))
