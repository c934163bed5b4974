"""Drawn clips have the colours, sizes and positions of the training data."""

import pytest
import torch

from omni_cli.models.demo.scenes import BACKGROUNDS, FOREGROUNDS, MOTION_PHRASES, SHAPES, Scene
from tests.tools.demo_model.drawings import draw_levels
from tools.demo_model.draw import Placement, coverage, draw, random_placements
from tools.demo_model.scene_data import RGB


@pytest.mark.parametrize("foreground", FOREGROUNDS)
@pytest.mark.parametrize("background", BACKGROUNDS)
def test_flat_areas_have_exactly_the_named_colours(foreground: str, background: str) -> None:
    clip = draw_levels(Scene(foreground, background, "square", "still"), Placement(), 1, 64, 64)
    assert tuple(clip[0, 32, 32].tolist()) == RGB[foreground]
    assert tuple(clip[0, 0, 0].tolist()) == RGB[background]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("motion", MOTION_PHRASES)
@pytest.mark.parametrize("frames", [1, 5, 9, 17, 33])
def test_shapes_stay_inside_the_frame(shape: str, motion: str, frames: int) -> None:
    placements = random_placements(16, torch.Generator().manual_seed(0))
    inside = coverage([Scene("red", "blue", shape, motion)] * 16, placements, frames, 64, 96)
    touched = torch.cat([inside[..., 0, :], inside[..., -1, :], inside[..., :, 0], inside[..., :, -1]], -1)
    assert touched.max() == 0


def test_shapes_scale_with_the_frame() -> None:
    scene = [Scene("red", "blue", "circle", "still")]
    small, large = (coverage(scene, [Placement()], 1, n, n).mean().item() for n in (64, 256))
    assert small == pytest.approx(large, rel=0.01)


def test_window_draws_a_part_of_the_same_clip() -> None:
    scene, placement = [Scene("red", "blue", "triangle", "left")], [Placement()]
    whole = draw(scene, placement, 9, 32, 32)
    assert torch.equal(draw(scene, placement, 9, 32, 32, slice(2, 7)), whole[:, :, 2:7])
