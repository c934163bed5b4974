"""Which calls may stream their frames."""

from typing import Any

import msgspec
import pytest
import torch

from omni_cli.config import EngineConfig, VideoOutputTransport
from omni_cli.media import NORMALIZED, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.platforms.streamless import CpuPlatform
from omni_cli.request import Interval, PlannedRequest
from omni_cli.transport.channel import Channel
from omni_cli.transport.messages import OutputReady, decode_from_worker
from omni_cli.transport.ring import SlotPool
from omni_cli.worker.output.outbox import Outbox
from omni_cli.worker.output.outgoing import PackContext
from omni_cli.worker.output.packer import Packer
from omni_cli.worker.streaming_decode import CallOutputs
from tests.factories import planned

VIDEO: dict[str, Any] = {"format": "mp4", "num_frames": 33, "height": 256, "width": 256}


def can_stream(engine: EngineConfig, *requests: PlannedRequest) -> bool:
    """Return True if a call of `requests` offers the runner a place for its frames."""
    channel, other_end = Channel.pair()
    outbox = Outbox(channel, SlotPool(0), Packer(CpuPlatform(), engine.transport), CpuPlatform(), limit=0)
    outputs = CallOutputs(outbox, CpuPlatform(), engine, requests, [request.id for request in requests])
    channel.close()
    other_end.close()
    return outputs.on_frames is not None


@pytest.mark.parametrize("fields", [{}, {"format": "webm"}, {"height": None, "width": None}], ids=str)
def test_long_videos_stream_if_their_encoder_reads_frame_after_frame(fields: dict[str, Any]) -> None:
    assert can_stream(EngineConfig(), planned(**VIDEO | fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"format": "gif"},
        {"format": "npy"},
        {"num_frames": 1, "height": 2048},
        {"height": 64, "width": 64},
        {"interpolate": 2},
        {"floats_for": "10-bit video"},
    ],
    ids=str,
)
def test_one_request_that_is_needed_whole_keeps_its_whole_call_from_streaming(fields: dict[str, Any]) -> None:
    assert not can_stream(EngineConfig(), planned(**VIDEO), planned(index=1, **VIDEO | fields))


@pytest.mark.parametrize(
    "settings",
    [
        {"chunked_decode": False},
        {"keep_invalid": True},
        {"fail_on_constant": True},
        {"fail_on_nsfw": True},
        {"transport": VideoOutputTransport(enable_device_postprocess=False)},
    ],
    ids=str,
)
def test_settings_that_need_the_whole_video_switch_streaming_off(settings: dict[str, Any]) -> None:
    assert not can_stream(msgspec.structs.replace(EngineConfig(), **settings), planned(**VIDEO))


class TimedPlatform(CpuPlatform):
    """Gives the time of an event only once it has been waited for, as a device that is late does."""

    def __init__(self) -> None:
        self.events = 0
        self.waited: set[int] = set()

    def record_device_event(self) -> int:
        self.events += 1
        return self.events

    def wait_for(self, event: int | None) -> None:
        self.waited |= set(range(1, self.events + 1 if event is None else event + 1))

    def host_time(self, event: int | None) -> float | None:
        return float(event) if event in self.waited else None


def test_the_end_of_a_streamed_video_waits_for_the_end_of_its_forward() -> None:
    platform, engine = TimedPlatform(), EngineConfig()
    channel, other_end = Channel.pair()
    packer, pool = Packer(platform, engine.transport), SlotPool(0)
    outputs = CallOutputs(
        Outbox(channel, pool, packer, platform, limit=0), platform, engine, [planned(**VIDEO)], ["b/a"]
    )
    media = Media(
        MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, NORMALIZED), torch.empty(1, 3, 33, 8, 8), streamed=True
    )
    end = outputs.outgoing(0, media, platform.record_device_event()).encode(PackContext(pool, packer, platform))
    assert end is not None
    message = decode_from_worker(end.data)
    assert isinstance(message, OutputReady)
    assert message.forward == Interval(1.0, 2.0)
    channel.close()
    other_end.close()
