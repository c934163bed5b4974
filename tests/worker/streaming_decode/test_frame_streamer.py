"""The frames that a pipeline streams are those of its whole video, bit for bit, and belong to the right request."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from diffusers.video_processor import VideoProcessor

from omni_cli.errors import RequestCancelled
from omni_cli.media import NORMALIZED, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.worker.pipeline.device_output_processor import DEVICE, wrap_processors
from omni_cli.worker.runner import DiffusersRunner
from omni_cli.worker.streaming_decode import FrameStreamer
from tests.factories import planned
from tests.worker.conftest import load, run
from tests.worker.streaming_decode.test_decoders import build, latents, wan

pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__")  # diffusers' own schedulers, on NumPy 2

FIELDS: dict[str, Any] = {
    "prompt": "a red circle",
    "height": 32,
    "width": 64,
    "num_inference_steps": 2,
    "format": "mp4",
}

CASES: dict[str, tuple[str, dict[str, Any], list[int]]] = {
    "wan": ("wan", {"num_frames": 9}, [1, 4, 4]),
    "wan 2.2": ("wan_ti2v", {"num_frames": 9, "height": 64, "width": 64}, [1, 4, 4]),
    "cogvideox": ("cogvideox", {"num_frames": 17}, [9, 8]),
    "hunyuan": ("hunyuan_video", {"num_frames": 17}, [5, 4, 4, 4]),
    "one section": ("helios", {"num_frames": 33}, [1] + [4] * 8),
    "two sections": ("helios", {"num_frames": 65}, [1] + [4] * 8 + [1] + [4] * 7 + [3]),
}
"""Name: (tiny pipeline, its fields, frames per piece)."""


class FrameLog:
    """Keeps the frames that it is called with."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, tuple[int, int], torch.Tensor]] = []

    def __call__(self, owner: int, media: Media) -> None:
        self.parts.append((owner, media.offset, media.data.clone()))

    def pieces_of(self, owner: int) -> list[torch.Tensor]:
        return [data for number, _, data in self.parts if number == owner]


def shorten_tiles(runner: DiffusersRunner) -> None:
    """Set tiles of 8 frames in time where the VAE has any, so that a short clip has several."""
    vae = runner._model.pipeline.vae
    if type(vae).__name__ == "AutoencoderKLHunyuanVideo":
        vae.tile_sample_min_num_frames, vae.tile_sample_stride_num_frames = 8, 4


@pytest.mark.parametrize("name", CASES)
def test_the_pieces_of_each_request_joined_equal_its_whole_video(
    runner_of: Callable[..., DiffusersRunner], name: str
) -> None:
    model, fields, lengths = CASES[name]
    runner, log = runner_of(model), FrameLog()
    shorten_tiles(runner)
    count, key = (2, "k") if runner._model.card.batchable else (1, "")
    requests = [
        planned(seeds=tuple(range(5, 5 + count)), batch_key=key, **FIELDS | fields),
        planned(index=1, seeds=(9,), batch_key=key, **FIELDS | fields),
    ]
    whole = run(runner, *requests)
    runner.stream_to(log)
    results = run(runner, *requests)
    runner.stream_to(None)
    for owner, (result, expected) in enumerate(zip(results, whole, strict=True)):
        assert result.streamed
        assert (result.data.shape, result.spec) == (expected.data.shape, expected.spec)
        pieces = log.pieces_of(owner)
        assert [piece.shape[2] for piece in pieces] == lengths
        assert torch.equal(torch.cat(pieces, dim=2), expected.data)


def test_a_cancel_between_two_pieces_ends_the_decode(runner_of: Callable[..., DiffusersRunner]) -> None:
    runner, log = runner_of("wan"), FrameLog()
    request = planned(**FIELDS | {"num_frames": 9})
    (whole,) = run(runner, request)
    runner.stream_to(log)
    with pytest.raises(RequestCancelled, match="at frame 1 of the decode"):
        runner.execute_model([request], lambda step, total: None, lambda: bool(log.parts))
    runner.stream_to(None)
    assert [data.shape[2] for _, _, data in log.parts] == [1]
    (again,) = run(runner, request)
    assert torch.equal(again.data, whole.data)


def test_out_of_memory_between_two_pieces_starts_each_sample_anew(tiny_model: Callable[[str], Path]) -> None:
    runner = load(str(tiny_model("wan")), dtype="float32")
    request = planned(seeds=(5, 6), batch_key="k", **FIELDS | {"num_frames": 9})
    (whole,) = run(runner, request)

    class OutOfMemoryLog(FrameLog):
        def __call__(self, owner: int, media: Media) -> None:
            super().__call__(owner, media)
            if len(self.parts) == 2:
                raise torch.OutOfMemoryError("out of memory")

    log = OutOfMemoryLog()
    runner.stream_to(log)
    (result,) = run(runner, request)
    runner.stream_to(None)
    assert result.streamed
    assert any("halved" in note for note in result.notes)
    second_attempt = {first: data for _, first, data in log.parts[2:]}
    for sample in (0, 1):
        clip = torch.cat([second_attempt[sample, frame] for frame in (0, 1, 5)], dim=2)
        assert torch.allclose(clip, whole.data[sample : sample + 1], atol=1e-4)


SPEC = MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, NORMALIZED)


def streamer() -> tuple[FrameStreamer, Any]:
    """Return a streamer of a pipeline that consists of a tiny VAE and a processor, and that VAE."""
    pipeline = SimpleNamespace(vae=build(wan), video_processor=VideoProcessor())
    wrap_processors(pipeline, VideoProcessor)
    return FrameStreamer(pipeline, DEVICE), pipeline.vae


def decode(vae: Any, batch: int) -> Media:
    """Return the media of a pipeline call that decodes `batch` samples of 5 frames."""
    with torch.inference_mode():
        return Media(SPEC, vae.decode(latents(3, batch)).sample)


def test_samples_are_numbered_within_their_request_over_several_calls() -> None:
    frames, vae = streamer()
    whole = decode(vae, 3).data
    log = FrameLog()
    frames.begin(log, lambda: False)
    medias = []
    for owners in ([0, 0, 1], [1, 2]):
        with frames.capture(owners) as finish:
            medias.append(finish(decode(vae, len(owners))))
    first_call = [part for start in (0, 1, 3) for part in ((0, (0, start), 2), (1, (0, start), 1))]
    second_call = [part for start in (0, 1, 3) for part in ((1, (1, start), 1), (2, (0, start), 1))]
    assert [(owner, offset, len(data)) for owner, offset, data in log.parts] == first_call + second_call
    assert torch.equal(torch.cat(log.pieces_of(0), dim=2), whole[:2])
    assert torch.equal(torch.cat(log.pieces_of(1)[:3], dim=2), whole[2:])
    results = frames.split(medias, [0, 0, 1, 1, 2], 3)
    assert [(media.streamed, tuple(media.data.shape)) for media in results] == [
        (True, (2, 3, 5, 8, 8)), (True, (2, 3, 5, 8, 8)), (True, (1, 3, 5, 8, 8)),
    ]  # fmt: skip


def test_a_whole_sample_of_a_streamed_request_is_sent_as_one_piece() -> None:
    frames, vae = streamer()
    log = FrameLog()
    frames.begin(log, lambda: False)
    with frames.capture([0]) as finish:
        streamed = finish(decode(vae, 1))
    whole = Media(SPEC, torch.arange(5.0, 8.0).view(3, 1, 1, 1, 1).expand(3, 3, 5, 8, 8))
    log.parts.clear()
    first, second = frames.split([streamed, whole], [0, 0, 1, 1], 2)
    assert (first.streamed, tuple(first.data.shape)) == (True, (2, 3, 5, 8, 8))
    assert not second.streamed
    assert second.data[:, 0, 0, 0, 0].tolist() == [6, 7]
    ((owner, offset, data),) = log.parts
    assert (owner, offset, data.unique().tolist()) == (0, (1, 0), [5])


def test_a_cancelled_call_sends_no_frames() -> None:
    frames, vae = streamer()
    log = FrameLog()
    frames.begin(log, lambda: True)
    with pytest.raises(RequestCancelled, match="at frame 0 of the decode"), frames.capture([0]):
        decode(vae, 1)
    assert log.parts == []


def test_the_vae_is_restored_and_a_pipeline_that_reads_pixels_streams_no_more() -> None:
    frames, vae = streamer()
    original = vae.decode
    log = FrameLog()
    for change, starts in ((0.0, [0, 1, 3]), (1.0, [0, 1]), (0.0, [])):
        frames.begin(log, lambda: False)
        log.parts.clear()
        with frames.capture([0]) as finish:
            media = decode(vae, 1)
            media = finish(replace(media, data=media.data + change) if change else media)
        assert [offset[1] for _, offset, _ in log.parts] == starts
        assert media.streamed == (starts == [0, 1, 3])
        assert vae.decode == original
    with pytest.raises(ZeroDivisionError), frames.capture([0]):
        raise ZeroDivisionError
    assert vae.decode == original


def test_a_pipeline_that_makes_sound_is_decoded_whole() -> None:
    pipeline = SimpleNamespace(vae=build(wan), video_processor=VideoProcessor(), sample_rate=8000)
    wrap_processors(pipeline, VideoProcessor)
    frames, log = FrameStreamer(pipeline, DEVICE), FrameLog()
    frames.begin(log, lambda: False)
    with frames.capture([0]) as finish:
        assert not finish(decode(pipeline.vae, 1)).streamed
    assert log.parts == []
