"""Drawing of scenes in batches, antialiased by signed distances.

Lengths are fractions of the frame: radii of its shorter side, positions and travel of the side that they run along.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from omni_cli.models.demo.scenes import SHAPES, Scene
from tools.demo_model.scene_data import RGB, SQUARE, TRIANGLE, growth, travel

RADIUS = (0.19, 0.24)
JITTER = 0.05

_DIRECTIONS = {"right": (1.0, 0.0), "left": (-1.0, 0.0), "down": (0.0, 1.0), "up": (0.0, -1.0)}


@dataclass(frozen=True)
class Placement:
    """The position of the shape at mid-clip, as fractions of the frame, and its radius there."""

    x: float = 0.5
    y: float = 0.5
    radius: float = 0.215


def random_placements(count: int, generator: torch.Generator) -> list[Placement]:
    """Return `count` random placements near the middle of the frame, as in training."""
    u = torch.rand(count, 3, generator=generator).tolist()
    low, high = RADIUS
    return [Placement(0.5 + JITTER * (2 * a - 1), 0.5 + JITTER * (2 * b - 1), low + (high - low) * c) for a, b, c in u]


def draw(
    scenes: Sequence[Scene],
    placements: Sequence[Placement],
    frames: int,
    height: int,
    width: int,
    window: slice = slice(None),
) -> Tensor:
    """Draw clips, float32 [B, 3, T, height, width], RGB in 0..1; T is the number of frames in `window`."""
    inside = coverage(scenes, placements, frames, height, width, window).unsqueeze(1)
    fg = torch.tensor([RGB[s.foreground] for s in scenes]).float().div(255).view(-1, 3, 1, 1, 1)
    bg = torch.tensor([RGB[s.background] for s in scenes]).float().div(255).view(-1, 3, 1, 1, 1)
    return bg + (fg - bg) * inside


def coverage(
    scenes: Sequence[Scene],
    placements: Sequence[Placement],
    frames: int,
    height: int,
    width: int,
    window: slice = slice(None),
) -> Tensor:
    """Return the share (0..1) of each pixel that the shape covers, float32 [B, T, height, width]."""
    x, y, radius = (track[:, window] for track in _tracks(scenes, placements, frames, height, width))
    dx = torch.arange(width).add(0.5).view(1, 1, 1, -1) - x[..., None, None]
    dy = torch.arange(height).add(0.5).view(1, 1, -1, 1) - y[..., None, None]
    kind = torch.tensor([SHAPES.index(s.shape) for s in scenes])
    distance = torch.empty(len(scenes), x.size(1), height, width)
    for index, signed_distance in enumerate((_circle, _square, _triangle)):
        rows = kind == index
        if rows.any():
            distance[rows] = signed_distance(dx[rows], dy[rows], radius[rows][..., None, None])
    return (0.5 - distance).clamp(0, 1)


def _tracks(
    scenes: Sequence[Scene], placements: Sequence[Placement], frames: int, height: int, width: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return centre x, centre y and radius in pixels, each float32 [B, frames]; a single frame is at mid-clip."""
    phase = torch.linspace(-0.5, 0.5, frames) if frames > 1 else torch.zeros(1)
    heading = torch.tensor([_DIRECTIONS.get(s.motion, (0.0, 0.0)) for s in scenes])
    sign = torch.tensor([{"growing": 1.0, "shrinking": -1.0}.get(s.motion, 0.0) for s in scenes])
    centre = torch.tensor([(p.x, p.y) for p in placements])
    base = torch.tensor([p.radius for p in placements]) * min(height, width)
    x = (centre[:, :1] + heading[:, :1] * travel(frames) * phase) * width
    y = (centre[:, 1:] + heading[:, 1:] * travel(frames) * phase) * height
    return x, y, base[:, None] * torch.exp(sign[:, None] * growth(frames) * phase)


def _circle(dx: Tensor, dy: Tensor, radius: Tensor) -> Tensor:
    return torch.hypot(dx, dy) - radius


def _square(dx: Tensor, dy: Tensor, radius: Tensor) -> Tensor:
    return torch.maximum(dx.abs(), dy.abs()) - SQUARE * radius


def _triangle(dx: Tensor, dy: Tensor, radius: Tensor) -> Tensor:
    """Return the distance to an equilateral triangle, apex up, around the centre of its bounding box."""
    circumradius = TRIANGLE * radius
    dy = dy - 0.25 * circumradius
    slope = math.sqrt(3) / 2 * dx.abs() - 0.5 * dy
    return torch.maximum(slope, dy) - 0.5 * circumradius
