"""Real pipelines: what leaves early is, bit for bit, what they give whole; and it does leave early."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from omni_cli.errors import RequestCancelled
from omni_cli.media import Media
from omni_cli.worker.protocol import Streamed
from omni_cli.worker.runner import DiffusersRunner
from tests.worker.conftest import planned, run

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
"""A tiny pipeline, its fields, and the frames that leave each time."""


class Kept:
    """A sink."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, tuple[int, int], torch.Tensor]] = []

    def send(self, owner: int, media: Media) -> None:
        self.parts.append((owner, media.first, media.data.clone()))

    def of(self, owner: int) -> list[torch.Tensor]:
        return [data for of, _, data in self.parts if of == owner]


def shorten(runner: DiffusersRunner) -> None:
    """Tiles of 8 frames in time, where a VAE has any: a short clip has several."""
    vae = runner._model.pipeline.vae
    if type(vae).__name__ == "AutoencoderKLHunyuanVideo":
        vae.tile_sample_min_num_frames, vae.tile_sample_stride_num_frames = 8, 4


@pytest.mark.parametrize("name", CASES)
def test_pieces_of_a_batch_are_the_whole_video(runner_of: Callable[..., DiffusersRunner], name: str) -> None:
    model, fields, lengths = CASES[name]
    runner, sink = runner_of(model), Kept()
    shorten(runner)
    count = 2 if runner._model.card.batchable else 1
    requests = [planned(tuple(range(5, 5 + count)), index=0, **FIELDS | fields), planned((9,), 1, **FIELDS | fields)]
    whole = run(runner, *requests)
    runner.stream_to(sink)
    results = run(runner, *requests)
    runner.stream_to(None)
    for owner, (result, expected) in enumerate(zip(results, whole, strict=True)):
        batch, channels, frames, height, width = expected.data.shape
        assert isinstance(result, Streamed)
        assert (result.shape, result.spec) == ((batch, frames, height, width, channels), expected.spec)
        pieces = sink.of(owner)
        assert [piece.shape[2] for piece in pieces] == lengths
        assert torch.equal(torch.cat(pieces, dim=2), expected.data)


def test_a_cancel_between_two_pieces_ends_the_decode(runner_of: Callable[..., DiffusersRunner]) -> None:
    runner, sink = runner_of("wan"), Kept()
    request = planned(**FIELDS | {"num_frames": 9})
    (whole,) = run(runner, request)
    runner.stream_to(sink)
    with pytest.raises(RequestCancelled, match="at frame 1 of the decode"):
        runner.execute_model([request], lambda step, total: None, lambda: bool(sink.parts))
    runner.stream_to(None)
    assert [data.shape[2] for _, _, data in sink.parts] == [1]
    (again,) = run(runner, request)
    assert torch.equal(again.data, whole.data)


def test_memory_that_runs_out_between_two_pieces_gives_the_same_video_whole(
    runner_of: Callable[..., DiffusersRunner],
) -> None:
    runner = runner_of("wan")
    request = planned((5, 6), **FIELDS | {"num_frames": 9})
    (whole,) = run(runner, request)

    class Full(Kept):
        def send(self, owner: int, media: Media) -> None:
            super().send(owner, media)
            if len(self.parts) == 2:
                raise torch.OutOfMemoryError("out of memory")

    sink = Full()
    runner.stream_to(sink)
    (result,) = run(runner, request)
    runner.stream_to(None)
    assert isinstance(result, Streamed)
    assert any("halved" in note for note in result.notes)
    begun_again = {first: data for _, first, data in sink.parts[2:]}
    for sample in (0, 1):
        clip = torch.cat([begun_again[sample, frame] for frame in (0, 1, 5)], dim=2)
        assert torch.allclose(clip, whole.data[sample : sample + 1], atol=1e-4)
