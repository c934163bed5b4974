"""A pipeline that hands its video on streams it; one that looks into it gets the real thing, and is remembered."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from omni_cli.worker.chunks.standin import StandIn
from omni_cli.worker.chunks.tap import Catch, Tap
from tests.worker.chunks.test_decoders import built, latents, wan

Z = [latents(3, batch=1) + number for number in range(3)]
"""The latents of three sections; each decodes to 5 frames."""


class Watch:
    """A catch over a tiny VAE, the frames that have left, and the real decodes."""

    def __init__(self) -> None:
        self.vae = built(wan)
        self.left: list[torch.Tensor] = []
        self.starts: list[int] = []
        self.catch = Catch(self.vae, self._emit)
        with torch.inference_mode():
            self.real = [self.vae.decode(z).sample for z in Z]

    def _emit(self, frames: torch.Tensor, first: int) -> None:
        self.left.append(frames.clone())
        self.starts.append(first)

    def decode(self, number: int) -> torch.Tensor:
        video: torch.Tensor = self.catch.decode(Z[number], return_dict=False)[0]
        return video

    @property
    def frames(self) -> torch.Tensor:
        return torch.cat(self.left, dim=2)


@pytest.fixture
def watch() -> Watch:
    return Watch()


def test_the_last_piece_leaves_when_the_video_is_handed_on(watch: Watch) -> None:
    video = watch.decode(0)
    assert watch.starts == [0, 1]
    assert watch.catch.settle(video) is video
    assert watch.starts == [0, 1, 3]
    assert torch.equal(watch.frames, watch.real[0])


def test_sections_that_are_joined_in_order_stream_into_one_video(watch: Watch) -> None:
    history = watch.decode(0)
    for number in (1, 2):
        history = torch.cat([history, watch.decode(number)], dim=2)
        assert watch.frames.shape[2] == 5 * (number + 1) - 2, "all but the last piece"
    assert history.size(2) == 15
    video = watch.catch.settle(history[:, :, :13])
    assert (isinstance(video, StandIn), video.shape) == (True, (1, 3, 13, 8, 8))
    assert torch.equal(watch.frames, torch.cat(watch.real, dim=2)[:, :, :13])
    assert watch.starts == [0, 1, 3, 5, 6, 8, 10, 11]
    assert not watch.catch.void


def test_a_cut_to_the_same_length_is_none(watch: Watch) -> None:
    video = watch.decode(0)
    assert video[:, :, :5] is video
    assert video[:, :, :9] is video


LOOKS: dict[str, tuple[Callable[[list[torch.Tensor]], torch.Tensor], tuple[int, ...]]] = {
    "changes": (lambda v: v[0] * 0.5, (0,)),
    "in place": (lambda v: v[0].clamp_(-0.1, 0.1), (0,)),
    "first frames": (lambda v: v[0][:, :, 1:], (0,)),
    "cut of what has left": (lambda v: v[0][:, :, :2], (0,)),
    "one frame": (lambda v: v[0][:, :, 0], (0,)),
    "joined backwards": (lambda v: torch.cat([v[1], v[0]], dim=2), (0, 1)),
    "joined twice": (lambda v: torch.cat([v[0], v[0]], dim=2), (0,)),
    "joined in the batch": (lambda v: torch.cat([v[0], v[1]]), (0, 1)),
    "joined with a tensor": (lambda v: torch.cat([v[0], torch.zeros(1, 3, 1, 8, 8)], dim=2), (0,)),
    "cross-faded": (
        lambda v: torch.cat([v[0][:, :, :-2], v[0][:, :, -2:] * 0.5 + v[1][:, :, :2] * 0.5], dim=2),
        (0, 1),
    ),
    "one of two": (lambda v: v[1], (0, 1)),
    "the first of two": (lambda v: v[0], (0, 1)),
    "a tensor": (lambda v: torch.ones(1, 3, 5, 8, 8), (0,)),
}
"""What a pipeline makes of its decodes, and how many it has."""


@pytest.mark.parametrize("what", LOOKS)
def test_whatever_else_a_pipeline_does_it_does_with_the_real_video(watch: Watch, what: str) -> None:
    make, numbers = LOOKS[what]
    with torch.inference_mode():
        made = watch.catch.settle(make([watch.decode(number) for number in numbers]))
        expected = make([watch.real[number].clone() for number in numbers])
    assert type(made) is torch.Tensor
    assert torch.equal(made, expected)
    assert watch.catch.void


def test_facts_of_a_video_are_known_without_looking(watch: Watch) -> None:
    video, real = watch.decode(0), watch.real[0]
    facts = (video.shape, video.dtype, video.device, video.ndim, video.numel(), len(video), video.size(-1), video.dim())
    assert facts == (real.shape, real.dtype, real.device, 5, real.numel(), 1, 8, 5)
    assert not watch.catch.void


def test_after_a_look_the_next_decode_of_the_call_is_whole(watch: Watch) -> None:
    assert bool((watch.decode(0) < 2).all())
    assert type(watch.decode(1)) is torch.Tensor


def test_a_tap_gives_the_vae_back_and_remembers_who_looks() -> None:
    vae = built(wan)
    tap = Tap(vae, SimpleNamespace())  # type: ignore[arg-type]
    original = vae.decode
    left: list[Any] = []
    with tap.catching(lambda frames, first: left.append(first)) as catch:
        catch.settle(vae.decode(Z[0]).sample)
    assert (left, tap.handed_on, vae.decode == original) == ([0, 1, 3], True, True)
    with tap.catching(lambda frames, first: None) as catch:
        catch.settle(vae.decode(Z[0]).sample + 1)
    assert not tap.handed_on
    with pytest.raises(ZeroDivisionError), tap.catching(lambda frames, first: 1 / 0):  # type: ignore[arg-type]
        vae.decode(Z[0])
    assert vae.decode == original
