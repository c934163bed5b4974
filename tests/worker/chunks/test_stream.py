"""Which requests' frames may leave early, and whose frames they are."""

from typing import Any

import msgspec
import pytest
import torch

from omni_cli.config import EngineConfig, VideoOutputTransport
from omni_cli.errors import RequestCancelled
from omni_cli.media import NORMALIZED, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.worker.chunks import RequestStreams
from omni_cli.worker.chunks.standin import StandIn
from omni_cli.worker.chunks.stream import streams
from omni_cli.worker.protocol import Streamed
from tests.worker.conftest import planned

CLIP: dict[str, Any] = {"format": "mp4", "num_frames": 33, "height": 256, "width": 256}
SPEC = MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, NORMALIZED)


@pytest.mark.parametrize("fields", [{}, {"format": "webm"}, {"height": None, "width": None}], ids=str)
def test_long_videos_for_encoders_that_take_frame_after_frame_leave_early(fields: dict[str, Any]) -> None:
    assert streams(EngineConfig(), [planned(**CLIP | fields)])


@pytest.mark.parametrize(
    "fields",
    [{"format": "gif"}, {"format": "npy"}, {"num_frames": 1, "height": 2048}, {"height": 64, "width": 64}],
    ids=str,
)
def test_one_request_that_is_wanted_whole_keeps_its_call_whole(fields: dict[str, Any]) -> None:
    assert not streams(EngineConfig(), [planned(**CLIP), planned(index=1, **CLIP | fields)])


@pytest.mark.parametrize(
    "settings",
    [
        {"chunked_decode": False},
        {"keep_invalid": True},
        {"fail_on_constant": True},
        {"transport": VideoOutputTransport(enable_device_postprocess=False)},
    ],
    ids=str,
)
def test_settings_that_want_the_whole_get_it(settings: dict[str, Any]) -> None:
    assert not streams(msgspec.structs.replace(EngineConfig(), **settings), [planned(**CLIP)])


class Sent:
    """A sink."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, tuple[int, int], list[float]]] = []

    def send(self, owner: int, media: Media) -> None:
        self.parts.append((owner, media.first, media.data[:, 0, 0, 0, 0].tolist()))


def rows(*values: float) -> torch.Tensor:
    """Two frames of a batch."""
    return torch.tensor(values, dtype=torch.float32).view(-1, 1, 1, 1, 1).expand(-1, 3, 2, 4, 4)


def test_a_batch_is_told_apart_over_several_calls() -> None:
    sink = Sent()
    made = RequestStreams(sink, NORMALIZED, lambda: False)
    made.begin([0, 0, 1], [])
    made.emit(rows(1, 2, 3), 0)
    made.emit(rows(4, 5, 6), 2)
    made.begin([1, 2], [0, 0, 1])
    made.emit(rows(7, 8), 0)
    assert sink.parts == [
        (0, (0, 0), [1, 2]), (1, (0, 0), [3]), (0, (0, 2), [4, 5]), (1, (0, 2), [6]), (1, (1, 0), [7]), (2, (0, 0), [8]),
    ]  # fmt: skip


def test_what_came_whole_after_all_follows_in_one_piece_if_the_rest_of_its_request_has_left() -> None:
    sink = Sent()
    made = RequestStreams(sink, NORMALIZED, lambda: False)
    left = Media(SPEC, StandIn.of(None, 0, 0, (1, 3, 2, 4, 4), torch.zeros(1)))  # type: ignore[arg-type]
    whole = Media(SPEC, rows(5, 6, 7))
    first, second = made.settle([left, whole], [0, 0, 1, 1], 2)
    assert first == Streamed(SPEC, (2, 2, 4, 4, 3))
    assert isinstance(second, Media)
    assert second.data[:, 0, 0, 0, 0].tolist() == [6, 7]
    assert sink.parts == [(0, (1, 0), [5])]


def test_a_cancelled_call_sends_nothing_more() -> None:
    sink = Sent()
    made = RequestStreams(sink, NORMALIZED, lambda: True)
    made.begin([0], [])
    with pytest.raises(RequestCancelled, match="at frame 4 of the decode"):
        made.emit(rows(1), 4)
    assert sink.parts == []
