"""Detection of drawn scenes, and rejection of everything else."""

import random

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from omni_cli.models.demo.scenes import Scene, all_scenes
from tests.tools.demo_model.drawings import draw_levels
from tools.demo_model.detect import UNCLEAR, Detection, attribute_accuracy, detect
from tools.demo_model.draw import Placement, random_placements
from tools.demo_model.round_trip import round_trip
from tools.demo_model.scene_data import RGB

RED_ON_BLUE = Scene("red", "blue", "circle", "still")


def drawn(
    scene: Scene, frames: int = 9, height: int = 64, width: int = 64, placement: Placement | None = None
) -> NDArray[np.uint8]:
    return draw_levels(scene, placement or Placement(), frames, height, width)


@pytest.mark.parametrize(("height", "width"), [(64, 64), (64, 128), (128, 64), (96, 96), (128, 128)])
@pytest.mark.parametrize("frames", [1, 5, 9, 17])
def test_drawn_scenes_are_detected_before_and_after_encoding(height: int, width: int, frames: int) -> None:
    scenes = random.Random(height + frames).sample(all_scenes(), 12)
    for scene, place in zip(scenes, random_placements(12, torch.Generator().manual_seed(frames)), strict=True):
        clip = drawn(scene, frames, height, width, place)
        motion = None if frames == 1 else scene.motion
        expected = Detection(scene.foreground, scene.background, scene.shape, motion)
        assert detect(clip) == expected
        assert detect(round_trip(clip)) == expected


def ellipse(stretch: float) -> np.ndarray:
    y, x = np.indices((64, 64)) - 31.5
    inside = np.hypot(x / stretch, y * stretch) < 14
    return np.where(inside[..., None], RGB["red"], RGB["blue"]).astype(np.uint8)[None]


def test_a_slightly_oval_circle_passes_and_an_ellipse_does_not() -> None:
    assert detect(ellipse(1.03)).shape == "circle"
    assert detect(ellipse(1.35)).shape == UNCLEAR


@pytest.mark.parametrize("power", [1.0, 3.5])
def test_a_diamond_and_a_squircle_are_unclear(power: float) -> None:
    y, x = np.abs(np.indices((64, 64)) - 31.5)
    inside = x**power + y**power < 15**power
    frame = np.where(inside[..., None], RGB["red"], RGB["blue"]).astype(np.uint8)
    assert detect(frame[None]).shape == UNCLEAR


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_rotated_triangle_is_unclear(turns: int) -> None:
    clip = np.rot90(drawn(Scene("red", "blue", "triangle", "still"), 1), turns, axes=(1, 2))
    assert detect(np.ascontiguousarray(clip)).shape == UNCLEAR


@pytest.mark.parametrize("stretch", [0.72, 1.4])
def test_a_stretched_triangle_is_unclear(stretch: float) -> None:
    clip = drawn(Scene("red", "blue", "triangle", "still"), 1, 64, 64)
    rows = (np.arange(64) - 31.5) / stretch + 31.5
    assert detect(clip[:, np.clip(rows.round().astype(int), 0, 63)]).shape == UNCLEAR


def test_an_arrow_head_is_unclear() -> None:
    clip = drawn(Scene("red", "blue", "triangle", "still"), 1)
    clip[:, 32:, 26:38] = RGB["blue"]
    assert detect(clip).shape == UNCLEAR


def test_a_ring_and_two_circles_are_unclear() -> None:
    ring = drawn(RED_ON_BLUE, 1)
    ring[:, 24:40, 24:40] = RGB["blue"]
    small = drawn(RED_ON_BLUE, 1)[:, ::2, ::2]
    pair = np.concatenate([np.concatenate([small, small], 2), np.full((1, 32, 64, 3), RGB["blue"], np.uint8)], 1)
    assert detect(ring).shape == UNCLEAR
    assert detect(pair).shape == UNCLEAR


def test_a_second_shape_of_a_third_colour_is_unclear() -> None:
    clip = drawn(RED_ON_BLUE, 1)
    clip[:, 4:14, 4:14] = RGB["yellow"]
    assert detect(clip).shape == UNCLEAR


def test_an_empty_or_noisy_frame_is_unclear() -> None:
    plain = np.full((9, 64, 64, 3), RGB["green"], np.uint8)
    noise = np.random.default_rng(0).integers(0, 256, (9, 64, 64, 3), np.uint8)
    assert detect(plain) == Detection(UNCLEAR, "green", UNCLEAR, UNCLEAR)
    assert detect(noise).shape == UNCLEAR


def test_a_colour_between_two_named_ones_is_unclear() -> None:
    frame = np.where((drawn(RED_ON_BLUE, 1) == RGB["blue"]).all(-1, keepdims=True), RGB["white"], (90, 150, 150))
    assert detect(frame.astype(np.uint8)).foreground == UNCLEAR


def test_a_reversed_clip_has_the_opposite_motion() -> None:
    seen = detect(drawn(Scene("green", "black", "square", "left")))
    assert seen == Detection("green", "black", "square", "left")
    assert detect(drawn(Scene("green", "black", "square", "left"))[::-1]).motion == "right"
    assert detect(drawn(Scene("green", "black", "square", "growing"))[::-1]).motion == "shrinking"


def test_diagonal_and_slow_motion_are_unclear() -> None:
    right = drawn(Scene("red", "blue", "circle", "right"))
    diagonal = np.stack([np.roll(frame, i * 2 - 8, axis=0) for i, frame in enumerate(right)])
    crawl = np.stack([np.roll(drawn(RED_ON_BLUE, 1)[0], i, axis=1) for i in range(9)])
    assert detect(diagonal).motion == UNCLEAR
    assert detect(crawl).motion == UNCLEAR


def test_a_shape_that_changes_during_the_clip_is_unclear() -> None:
    clip = drawn(RED_ON_BLUE)
    clip[5:] = drawn(Scene("red", "blue", "square", "still"))[5:]
    assert detect(clip).shape == UNCLEAR


@pytest.mark.parametrize("bad", [np.zeros((64, 64, 3), np.uint8), np.zeros((1, 8, 8, 3), np.float32)])
def test_other_layouts_raise(bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match="uint8 \\[T, H, W, 3\\]"):
        detect(bad)


def test_accuracy_counts_each_attribute_by_itself() -> None:
    asked = Scene("red", "blue", "circle", "right")
    pairs = [(asked, Detection("red", "blue", "circle", "right")), (asked, Detection("red", "blue", "square", UNCLEAR))]
    expected = {"foreground": 1.0, "background": 1.0, "shape": 0.5, "motion": 0.5, "all": 0.5}
    assert attribute_accuracy(pairs) == expected


def test_accuracy_of_images_has_no_motion() -> None:
    shares = attribute_accuracy([(Scene("red", "blue", "circle", "right"), Detection("red", "blue", "circle", None))])
    assert shares == {"foreground": 1.0, "background": 1.0, "shape": 1.0, "all": 1.0}
