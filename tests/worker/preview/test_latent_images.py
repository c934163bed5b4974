"""Latents of every layout and scheduler become the picture that they stand for."""

import math
from collections.abc import Callable
from typing import Any

import diffusers
import pytest
import torch

from omni_cli.models.cards import LatentRgb
from omni_cli.worker.preview.latent_images import LatentToRgb, X0Estimator, image_latents

COLOURS = LatentRgb(weights=((10.0, 0.0, 0.0), (0.0, 20.0, 0.0), (0.0, 0.0, -5.0)), bias=(100.0, 50.0, 200.0))
TO_RGB = LatentToRgb(COLOURS, torch.device("cpu"))


def estimate(scheduler: Any, sigmas: tuple[float, float], mix: Callable[[float], torch.Tensor]) -> torch.Tensor:
    """Return the estimate after steps to two `sigmas`, at which the latents are `mix(sigma)`."""
    first, second = sigmas
    previous = mix(first), torch.tensor(first)
    result: torch.Tensor = X0Estimator(scheduler).estimate(mix(second), torch.tensor(second), previous)
    return result


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_the_estimate_is_exact_on_a_straight_line_for_each_kind_of_scheduler() -> None:
    generator = torch.Generator().manual_seed(1)
    clean, noise = (torch.randn(1, 4, 8, 8, generator=generator) for _ in range(2))
    flow = diffusers.FlowMatchEulerDiscreteScheduler()
    x0 = estimate(flow, (0.9, 0.8), lambda s: (1 - s) * clean + s * noise)
    assert torch.allclose(x0, clean, atol=1e-4)
    exploding = diffusers.EulerDiscreteScheduler()
    exploding.set_timesteps(4)
    x0 = estimate(exploding, (14.0, 9.0), lambda s: clean + s * noise)
    assert torch.allclose(x0, clean, atol=1e-4)
    preserving = diffusers.DPMSolverMultistepScheduler()
    x0 = estimate(preserving, (14.0, 9.0), lambda s: (clean + s * noise) / math.sqrt(1 + s * s))
    assert torch.allclose(x0, clean, atol=1e-3)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_two_steps_of_a_stochastic_sampler_are_not_extrapolated() -> None:
    latents, previous = torch.full((1, 4, 2, 2), 6.0), torch.zeros(1, 4, 2, 2)
    ancestral = diffusers.EulerAncestralDiscreteScheduler()
    ancestral.set_timesteps(4)
    x0 = X0Estimator(ancestral).estimate(latents, torch.tensor(3.0), (previous, torch.tensor(9.0)))
    assert torch.allclose(x0, latents / math.sqrt(10))


def test_latents_without_a_sigma_or_with_an_unchanged_one_are_returned_unchanged() -> None:
    latents = torch.ones(1, 4, 2, 2)
    estimator = X0Estimator(diffusers.FlowMatchEulerDiscreteScheduler())
    assert estimator.estimate(latents, None, None) is latents
    assert torch.equal(estimator.estimate(latents, torch.tensor(0.5), (latents * 9, torch.tensor(0.5))), latents)


def grid(*shape: int) -> torch.Tensor:
    return torch.arange(math.prod(shape), dtype=torch.float32).view(shape)


def test_unpacked_layouts_give_the_image_or_the_middle_frame() -> None:
    image = grid(2, 3, 4, 6)
    assert torch.equal(image_latents(image, 3, 32, 48, None), image)
    clip = grid(2, 3, 5, 4, 6)
    assert torch.equal(image_latents(clip, 3, 32, 48, 17), clip[:, :, 2])
    assert torch.equal(image_latents(clip.transpose(1, 2), 3, 32, 48, 17), clip[:, :, 2])


@pytest.mark.parametrize("name", ["FluxPipeline", "QwenImagePipeline"])
def test_packed_latents_are_unpacked_as_the_pipeline_packs_them(name: str) -> None:
    image = grid(2, 3, 4, 6)
    packed = getattr(diffusers, name)._pack_latents(image, 2, 3, 4, 6)
    assert torch.equal(image_latents(packed, 3, 32, 48, None), image)


def test_packed_clips_are_unpacked_as_ltx_packs_them() -> None:
    clip = grid(1, 8, 3, 2, 3)
    packed = diffusers.LTXPipeline._pack_latents(clip, 1, 1)
    assert torch.equal(image_latents(packed, 8, 64, 96, 17), clip[:, :, 1])


@pytest.mark.parametrize("shape", [(1, 5, 4, 4), (1, 3), (1, 7, 3), (1, 4, 4, 4, 4, 4)])
def test_latents_of_any_other_shape_raise(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"expected latents of pictures|do not form a grid"):
        image_latents(grid(*shape), 3, 32, 32, None)


def test_a_picture_has_the_levels_of_the_map_and_a_bounded_size() -> None:
    latents = torch.stack([torch.full((2, 2), value) for value in (5.0, 100.0, 1000.0)])
    assert TO_RGB(latents).tolist() == [[[150, 255, 0]] * 2] * 2
    assert TO_RGB(latents * float("nan")).tolist() == [[[0, 0, 0]] * 2] * 2
    assert TO_RGB(torch.zeros(3, 600, 300)).shape == (200, 100, 3)
