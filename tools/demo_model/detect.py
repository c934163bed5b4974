"""Detection of the scene in a decoded clip, to measure how well the demo model follows prompts.

A clip is taken as an opaque shape on a plain background: each pixel is a mix of two colours, and the shape's shares of
the pixels are compared with a circle, a square and a triangle of the same area and centre. An attribute that fits
nothing is "unclear", never the nearest guess. numpy only.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omni_cli.models.demo.scenes import SHAPES, Scene
from tools.demo_model.scene_data import RGB, growth, travel

UNCLEAR = "unclear"

COLOUR_TOLERANCE = 40.0
"""Largest distance in RGB (0-255) between a measured and a named colour."""
PERIMETER = {"circle": 2 * math.sqrt(math.pi), "square": 4.0, "triangle": math.sqrt(12 * math.sqrt(3))}
"""Perimeters of shapes of area 1. A longer outline loses more overlap to the same error, so the error is limited."""
MAX_DEVIATION = 0.042
"""Largest mean distance of an outline from its template's, over the square root of the shape's area.

As intersection over union, averaged over the frames, a circle needs 0.85, a square 0.83 and a triangle 0.81. A square
on its corner, the shape that is nearest to another one's template, deviates by 0.047 from a circle.
"""
MIN_LEAD = 0.025
"""Smallest difference in overlap between the best and the second best template."""
SHARPEN = 3.0
"""Factor by which edges are steepened: codecs soften them, which moves no edge but costs overlap."""
MAX_STRAY = 0.08
"""Largest area of a third colour, as a share of the shape's area."""
MOVING, RESTING = 0.5, 0.35
"""Smallest share of the training clips' travel that counts as motion, and the largest that counts as rest."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Detection:
    """The attributes of a clip, each a name of `scenes` or "unclear". The motion of a single image is None."""

    foreground: str
    background: str
    shape: str
    motion: str | None


def detect(frames: NDArray[np.uint8]) -> Detection:
    """Detect the scene of a clip, uint8 [T, H, W, 3], RGB. Raises ValueError for any other array."""
    if frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != np.uint8:
        raise ValueError(f"expected frames as uint8 [T, H, W, 3], got {frames.dtype} {list(frames.shape)}")
    pixels = frames.astype(np.float64)
    background = _border_colour(pixels)
    foreground = _shape_colour(pixels, background)
    motion = None if len(frames) == 1 else UNCLEAR
    if foreground is None:
        return Detection(UNCLEAR, _colour_name(background), UNCLEAR, motion)
    share, stray = _shares(pixels, background, foreground)
    if motion is not None:
        motion = _motion(share)
    return Detection(_colour_name(foreground), _colour_name(background), _shape(share, stray), motion)


def attribute_accuracy(pairs: Iterable[tuple[Scene, Detection]]) -> dict[str, float]:
    """Return the share of pairs (0..1) in which each attribute is right; "all" counts pairs right in every one.

    Single images have no motion; a set of images alone has no entry for it.
    """
    right: dict[str, list[bool]] = {"foreground": [], "background": [], "shape": [], "motion": [], "all": []}
    for scene, detection in pairs:
        motion = [detection.motion == scene.motion] if detection.motion is not None else []
        names = ("foreground", "background", "shape")
        flags = [vars(detection)[name] == vars(scene)[name] for name in names]
        for name, flag in zip(names, flags, strict=True):
            right[name].append(flag)
        right["motion"] += motion
        right["all"].append(all(flags + motion))
    return {name: sum(flags) / len(flags) for name, flags in right.items() if flags}


def _border_colour(pixels: Floats) -> Floats:
    """Return the median colour of the frames' borders, [3], of `pixels`, [T, H, W, 3]."""
    border = [pixels[:, :2], pixels[:, -2:], pixels[:, :, :2], pixels[:, :, -2:]]
    return np.asarray(np.median(np.concatenate([b.reshape(-1, 3) for b in border]), axis=0))


def _shape_colour(pixels: Floats, background: Floats) -> Floats | None:
    """Return the median colour, [3], of what clearly is no background, two pixels inside its edge, or None."""
    other = np.linalg.norm(pixels - background, axis=-1) > 40
    inner = _erode(_erode(other))
    if inner.mean() < 0.005:
        return None
    return np.asarray(np.median(pixels[inner], axis=0))


def _colour_name(colour: Floats) -> str:
    """Return the name of a colour, [3] in 0-255."""
    distance = {name: float(np.linalg.norm(colour - rgb)) for name, rgb in RGB.items()}
    best = min(distance, key=distance.__getitem__)
    return best if distance[best] <= COLOUR_TOLERANCE else UNCLEAR


def _shares(pixels: Floats, background: Floats, foreground: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the shape's share of each pixel (0..1, edges steepened) and the mask of a third colour, both [T, H, W].

    Lines up to two pixels wide do not count as a third colour: halved chroma resolution makes them of edges.
    """
    axis = foreground - background
    along = (pixels - background) @ axis / (axis @ axis)
    off = np.linalg.norm(pixels - background - along[..., None] * axis, axis=-1)
    return np.clip(SHARPEN * (along - 0.5) + 0.5, 0, 1), _erode((off > 60) | (along < -0.4) | (along > 1.4))


def _erode(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return `mask`, [T, H, W], without the pixels that share a side with one outside it or with the frame's edge."""
    padded = np.pad(mask, ((0, 0), (1, 1), (1, 1)))
    inner = mask & padded[:, :-2, 1:-1] & padded[:, 2:, 1:-1] & padded[:, 1:-1, :-2] & padded[:, 1:-1, 2:]
    return np.asarray(inner)


def _shape(share: Floats, stray: NDArray[np.bool_]) -> str:
    """Return the shape of a clip from its shares and third colours, [T, H, W]: that of the mean overlap over frames."""
    frames = [_overlaps(one) for one, other in zip(share, stray, strict=True) if _is_clean(one, other)]
    if len(frames) <= 0.75 * len(share):
        return UNCLEAR
    mean = {name: sum(overlap[name] for overlap in frames) / len(frames) for name in SHAPES}
    second, best = sorted(mean, key=mean.__getitem__)[-2:]
    deviation = (1 - mean[best]) / PERIMETER[best]
    clear = deviation <= MAX_DEVIATION and mean[best] - mean[second] >= MIN_LEAD
    return best if clear else UNCLEAR


def _is_clean(share: Floats, stray: NDArray[np.bool_]) -> bool:
    """Return whether a frame, [H, W], shows enough of the shape's colour and little of a third one."""
    area = float(share.sum())
    return area >= 0.01 * share.size and stray.sum() <= MAX_STRAY * area


def _overlaps(share: Floats) -> dict[str, float]:
    """Return the intersection over union of a frame's shares, [H, W], with each template of that area and centre."""
    area = share.sum()
    y, x = np.indices(share.shape)
    cx, cy = (share * x).sum() / area, (share * y).sum() / area
    overlaps = {}
    for name in SHAPES:
        template = np.clip(0.5 - _distance(name, x - cx, y - cy, area), 0, 1)
        overlaps[name] = float(np.minimum(share, template).sum() / np.maximum(share, template).sum())
    return overlaps


def _distance(shape: str, dx: Floats, dy: Floats, area: float) -> Floats:
    """Return the signed distance, pixels [H, W], to a shape of `area` whose centroid is the origin."""
    distance: Floats
    if shape == "circle":
        distance = np.hypot(dx, dy) - np.sqrt(area / np.pi)
    elif shape == "square":
        distance = np.maximum(np.abs(dx), np.abs(dy)) - np.sqrt(area) / 2
    else:
        inradius = np.sqrt(area / (3 * np.sqrt(3)))
        distance = np.maximum(np.sqrt(3) / 2 * np.abs(dx) - 0.5 * dy, dy) - inradius
    return distance


def _motion(share: Floats) -> str:
    """Return the motion of shares [T, H, W]: the one change of place or size in a straight-line fit over the frames."""
    frames, height, width = share.shape
    area = share.sum(axis=(1, 2))
    if area.min() < 0.005 * height * width:
        return UNCLEAR
    y, x = np.indices((height, width))
    tracks = {
        ("right", "left"): (share * x).sum(axis=(1, 2)) / area / width / travel(frames),
        ("down", "up"): (share * y).sum(axis=(1, 2)) / area / height / travel(frames),
        ("growing", "shrinking"): np.log(area) / 2 / growth(frames),
    }
    time = np.linspace(-0.5, 0.5, frames)
    change = {names: float(time @ track / (time @ time)) for names, track in tracks.items()}
    (names, strongest), *rest = sorted(change.items(), key=lambda item: -abs(item[1]))
    if abs(strongest) <= RESTING:
        return "still"
    if abs(strongest) < MOVING or any(abs(value) > RESTING for _, value in rest):
        return UNCLEAR
    return names[0] if strongest > 0 else names[1]
