"""Looks at decoded frames and says what they show: the judge of the demo model's obedience.

Numpy only, and strict: what does not fit is "unclear", never the nearest guess. A clip is read as an opaque shape on
a plain background: each pixel is some share of one colour over the other, and the shares are compared with a circle, a
square and a triangle of the same area and centre.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omni_cli.models.demo.scenes import RGB, SHAPES, Scene, growth, travel

UNCLEAR = "unclear"

COLOUR_TOLERANCE = 40.0
"""Largest distance in RGB, 0-255, between a measured colour and the named one."""
PERIMETER = {"circle": 2 * math.sqrt(math.pi), "square": 4.0, "triangle": math.sqrt(12 * math.sqrt(3))}
"""Of a shape of area 1. A longer outline loses more overlap to the same error, so limits are set on the error."""
LARGEST_DEVIATION = 0.042
"""Largest mean distance of an outline from its template's, over the square root of the shape's area.

In overlap, intersection over union, averaged over the frames: a circle needs 0.85, a square 0.83 and a triangle 0.81. A
square on its corner, the shape that comes nearest to another's template, deviates by 0.047 from a circle.
"""
LEAST_LEAD = 0.025
"""How far the second best template's overlap must be behind."""
SHARPEN = 3.0
"""Edges this much steeper: codecs soften them, which moves no edge but would cost overlap."""
LARGEST_STRAY = 0.08
"""Largest share of the shape's area that may lie off its template's neighbourhood or be of another colour."""
MOVED, RESTED = 0.5, 0.35
"""Least share of the drawn travel that counts as motion, and the most that counts as rest."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """What a clip shows; each field a name from `scenes` or "unclear". A single image has no motion: None."""

    foreground: str
    background: str
    shape: str
    motion: str | None


def detect(frames: NDArray[np.uint8]) -> Seen:
    """Reads one clip: uint8 [T, H, W, 3], RGB."""
    if frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != np.uint8:
        raise ValueError(f"frames must be uint8 [T, H, W, 3], not {frames.dtype} {list(frames.shape)}")
    pixels = frames.astype(np.float64)
    background = _border_colour(pixels)
    foreground = _shape_colour(pixels, background)
    motion = None if len(frames) == 1 else UNCLEAR
    if foreground is None:
        return Seen(UNCLEAR, _name(background), UNCLEAR, motion)
    share, stray = _shares(pixels, background, foreground)
    if motion is not None:
        motion = _motion(share)
    return Seen(_name(foreground), _name(background), _shape(share, stray), motion)


def obedience(pairs: Iterable[tuple[Scene, Seen]]) -> dict[str, float]:
    """Share of pairs, 0..1, whose attribute is as asked; "all" counts those right in every one.

    Motion is judged where there can be one; a set of single images has no such entry.
    """
    right: dict[str, list[bool]] = {"foreground": [], "background": [], "shape": [], "motion": [], "all": []}
    for asked, seen in pairs:
        moves = [seen.motion == asked.motion] if seen.motion is not None else []
        flags = [seen.foreground == asked.foreground, seen.background == asked.background, seen.shape == asked.shape]
        for name, flag in zip(("foreground", "background", "shape"), flags, strict=True):
            right[name].append(flag)
        right["motion"] += moves
        right["all"].append(all(flags + moves))
    return {name: sum(flags) / len(flags) for name, flags in right.items() if flags}


def _border_colour(pixels: Floats) -> Floats:
    border = [pixels[:, :2], pixels[:, -2:], pixels[:, :, :2], pixels[:, :, -2:]]
    return np.asarray(np.median(np.concatenate([b.reshape(-1, 3) for b in border]), axis=0))


def _shape_colour(pixels: Floats, background: Floats) -> Floats | None:
    """Median colour of what is clearly not background and at least two pixels inside; None if there is no such area."""
    other = np.linalg.norm(pixels - background, axis=-1) > 40
    inner = _erode(_erode(other))
    if inner.mean() < 0.005:
        return None
    return np.asarray(np.median(pixels[inner], axis=0))


def _name(colour: Floats) -> str:
    distance = {name: float(np.linalg.norm(colour - rgb)) for name, rgb in RGB.items()}
    best = min(distance, key=distance.__getitem__)
    return best if distance[best] <= COLOUR_TOLERANCE else UNCLEAR


def _shares(pixels: Floats, background: Floats, foreground: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The shape's share of each pixel, 0..1, sharpened, and where a third colour is: both [T, H, W].

    Lines up to two pixels wide are no third colour: that is what halved chroma resolution makes of an edge.
    """
    axis = foreground - background
    along = (pixels - background) @ axis / (axis @ axis)
    off = np.linalg.norm(pixels - background - along[..., None] * axis, axis=-1)
    return np.clip(SHARPEN * (along - 0.5) + 0.5, 0, 1), _erode((off > 60) | (along < -0.4) | (along > 1.4))


def _erode(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Without the pixels that touch, by a side or by the frame's edge, one outside the mask: [T, H, W]."""
    padded = np.pad(mask, ((0, 0), (1, 1), (1, 1)))
    inner = mask & padded[:, :-2, 1:-1] & padded[:, 2:, 1:-1] & padded[:, 1:-1, :-2] & padded[:, 1:-1, 2:]
    return np.asarray(inner)


def _shape(share: Floats, stray: NDArray[np.bool_]) -> str:
    """The shape of a clip, from the shares [T, H, W] of its frames: one frame that wobbles does not decide, nor does it count
    for nothing.
    """
    frames = [_overlaps(one) for one, off in zip(share, stray, strict=True) if _is_whole(one, off)]
    if len(frames) <= 0.75 * len(share):
        return UNCLEAR
    mean = {name: sum(overlap[name] for overlap in frames) / len(frames) for name in SHAPES}
    second, best = sorted(mean, key=mean.__getitem__)[-2:]
    deviation = (1 - mean[best]) / PERIMETER[best]
    clear = deviation <= LARGEST_DEVIATION and mean[best] - mean[second] >= LEAST_LEAD
    return best if clear else UNCLEAR


def _is_whole(share: Floats, stray: NDArray[np.bool_]) -> bool:
    """True if a frame, [H, W], shows one area of the shape's colour and little else."""
    area = float(share.sum())
    return area >= 0.01 * share.size and stray.sum() <= LARGEST_STRAY * area


def _overlaps(share: Floats) -> dict[str, float]:
    """Intersection over union of one frame's shares, [H, W], with each template of the same area and centre."""
    area = share.sum()
    y, x = np.indices(share.shape)
    cx, cy = (share * x).sum() / area, (share * y).sum() / area
    overlaps = {}
    for name in SHAPES:
        template = np.clip(0.5 - _distance(name, x - cx, y - cy, area), 0, 1)
        overlaps[name] = float(np.minimum(share, template).sum() / np.maximum(share, template).sum())
    return overlaps


def _distance(shape: str, dx: Floats, dy: Floats, area: float) -> Floats:
    """Signed distance in pixels to a shape of `area` whose centroid is the origin."""
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
    """Names the one change, of place or size, that the straight line through all frames shows."""
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
    clock = np.linspace(-0.5, 0.5, frames)
    change = {names: float(clock @ track / (clock @ clock)) for names, track in tracks.items()}
    (names, strongest), *rest = sorted(change.items(), key=lambda item: -abs(item[1]))
    if abs(strongest) <= RESTED:
        return "still"
    if abs(strongest) < MOVED or any(abs(value) > RESTED for _, value in rest):
        return UNCLEAR
    return names[0] if strongest > 0 else names[1]
