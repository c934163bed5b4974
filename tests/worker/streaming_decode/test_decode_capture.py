"""A pipeline that only passes its video on streams it; one that reads its pixels gets the real video."""

from collections.abc import Callable

import pytest
import torch

from omni_cli.worker.streaming_decode.decode_capture import DecodeCapture
from omni_cli.worker.streaming_decode.placeholder_tensor import PlaceholderTensor
from tests.worker.streaming_decode.test_decoders import build, latents, wan

Z = [latents(3, batch=1) + number for number in range(3)]
"""Latents of three sections; each decodes to 5 frames."""


class CapturedVae:
    """A tiny VAE whose decodes are captured, the frames emitted so far, and what plain decodes give."""

    def __init__(self) -> None:
        self.vae = build(wan)
        self.emitted: list[torch.Tensor] = []
        self.starts: list[int] = []
        self.capture = DecodeCapture(self.vae, self._emit)
        with torch.inference_mode():
            self.real = [self.vae.decode(z).sample for z in Z]

    def _emit(self, frames: torch.Tensor, first: int) -> None:
        self.emitted.append(frames.clone())
        self.starts.append(first)

    def decode(self, number: int) -> torch.Tensor:
        video: torch.Tensor = self.capture.decode(Z[number], return_dict=False)[0]
        return video

    @property
    def frames(self) -> torch.Tensor:
        return torch.cat(self.emitted, dim=2)


@pytest.fixture
def captured() -> CapturedVae:
    return CapturedVae()


def test_the_last_piece_is_emitted_when_the_pipeline_returns_the_video(captured: CapturedVae) -> None:
    video = captured.decode(0)
    assert captured.starts == [0, 1]
    assert captured.capture.finish(video) is video
    assert captured.starts == [0, 1, 3]
    assert torch.equal(captured.frames, captured.real[0])


def test_sections_joined_in_order_stream_into_one_video(captured: CapturedVae) -> None:
    history = captured.decode(0)
    for number in (1, 2):
        history = torch.cat([history, captured.decode(number)], dim=2)
        assert captured.frames.shape[2] == 5 * (number + 1) - 2, "all but the last piece"
    assert history.size(2) == 15
    video = captured.capture.finish(history[:, :, :13])
    assert (isinstance(video, PlaceholderTensor), video.shape) == (True, (1, 3, 13, 8, 8))
    assert torch.equal(captured.frames, torch.cat(captured.real, dim=2)[:, :, :13])
    assert captured.starts == [0, 1, 3, 5, 6, 8, 10, 11]
    assert not captured.capture.discarded


def test_a_cut_that_removes_no_frame_returns_the_same_placeholder(captured: CapturedVae) -> None:
    video = captured.decode(0)
    assert video[:, :, :5] is video
    assert video[:, :, :9] is video


READS: dict[str, tuple[Callable[[list[torch.Tensor]], torch.Tensor], tuple[int, ...]]] = {
    "arithmetic": (lambda v: v[0] * 0.5, (0,)),
    "in place": (lambda v: v[0].clamp_(-0.1, 0.1), (0,)),
    "cut at the start": (lambda v: v[0][:, :, 1:], (0,)),
    "cut of emitted frames": (lambda v: v[0][:, :, :2], (0,)),
    "one frame": (lambda v: v[0][:, :, 0], (0,)),
    "joined backwards": (lambda v: torch.cat([v[1], v[0]], dim=2), (0, 1)),
    "joined twice": (lambda v: torch.cat([v[0], v[0]], dim=2), (0,)),
    "joined in the batch": (lambda v: torch.cat([v[0], v[1]]), (0, 1)),
    "joined with a tensor": (lambda v: torch.cat([v[0], torch.zeros(1, 3, 1, 8, 8)], dim=2), (0,)),
    "cross-faded": (
        lambda v: torch.cat([v[0][:, :, :-2], v[0][:, :, -2:] * 0.5 + v[1][:, :, :2] * 0.5], dim=2),
        (0, 1),
    ),
    "the second of two": (lambda v: v[1], (0, 1)),
    "the first of two": (lambda v: v[0], (0, 1)),
    "another tensor": (lambda v: torch.ones(1, 3, 5, 8, 8), (0,)),
}
"""What a pipeline may do with its decodes, and the sections that it decodes."""


@pytest.mark.parametrize("name", READS)
def test_any_other_operation_is_done_with_the_real_video(captured: CapturedVae, name: str) -> None:
    operation, numbers = READS[name]
    with torch.inference_mode():
        result = captured.capture.finish(operation([captured.decode(number) for number in numbers]))
        expected = operation([captured.real[number].clone() for number in numbers])
    assert type(result) is torch.Tensor
    assert torch.equal(result, expected)
    assert captured.capture.discarded


def test_shape_dtype_and_device_are_known_without_a_second_decode(captured: CapturedVae) -> None:
    video, real = captured.decode(0), captured.real[0]
    facts = (video.shape, video.dtype, video.device, video.ndim, video.numel(), len(video), video.size(-1), video.dim())
    assert facts == (real.shape, real.dtype, real.device, 5, real.numel(), 1, 8, 5)
    assert not captured.capture.discarded


def test_after_pixels_were_read_the_next_decode_of_the_call_is_whole(captured: CapturedVae) -> None:
    assert bool((captured.decode(0) < 2).all())
    assert type(captured.decode(1)) is torch.Tensor


def test_a_stream_that_is_not_wanted_is_replaced_by_the_real_video(captured: CapturedVae) -> None:
    video = captured.capture.finish(captured.decode(0), wanted=False)
    assert torch.equal(video, captured.real[0])
    assert captured.capture.discarded
