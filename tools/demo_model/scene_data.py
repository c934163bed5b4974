"""The training data of the demo model: colours, proportions, motion, the split of scenes, and sentences.

Standard library only, so that the detector and tests need no torch.
"""

import hashlib
import random
import re
from functools import cache

from omni_cli.models.demo.scenes import (
    BACKGROUNDS,
    FOREGROUNDS,
    MOTION_PHRASES,
    SHAPES,
    Scene,
    all_scenes,
    caption,
    fix_article,
)

RGB: dict[str, tuple[int, int, int]] = {
    "red": (220, 40, 40),
    "green": (40, 170, 70),
    "blue": (40, 80, 220),
    "yellow": (245, 215, 50),
    "orange": (245, 130, 30),
    "purple": (145, 60, 190),
    "white": (250, 250, 250),
    "black": (15, 15, 15),
    "gray": (128, 128, 128),
}
"""sRGB values (0-255) of the flat areas."""

SQUARE, TRIANGLE = 0.92, 1.35
"""Half side of the square and circumradius of the triangle for a circle of radius 1: nearly equal in area."""

HELD_OUT = 210
"""Number of the 903 scenes that are kept from training."""


def travel(frames: int) -> float:
    """Return the distance that a moving shape covers in a clip, as a fraction of the side that it moves along."""
    return min(0.04 * (frames - 1), 0.36)


def growth(frames: int) -> float:
    """Return the natural logarithm of a growing shape's last size over its first."""
    return min(0.08 * (frames - 1), 0.55)


@cache
def held_out() -> tuple[Scene, ...]:
    """Return the 210 scenes kept from training: those whose captions have the smallest SHA-256 digests."""

    def digest(scene: Scene) -> bytes:
        return hashlib.sha256(caption(scene).encode()).digest()

    return tuple(sorted(all_scenes(), key=digest)[:HELD_OUT])


@cache
def training_scenes() -> tuple[Scene, ...]:
    """Return the 693 scenes of the training set."""
    unseen = set(held_out())
    return tuple(scene for scene in all_scenes() if scene not in unseen)


def parse(prompt: str) -> Scene | None:
    """Return the scene of a canonical caption, ignoring case and outer spaces; None for any other sentence."""
    match = _CANONICAL.fullmatch(prompt.strip().lower())
    if match is None or match["foreground"] == match["background"]:
        return None
    motion = next(name for name, phrase in MOTION_PHRASES.items() if phrase == (match["motion"] or ""))
    return Scene(match["foreground"], match["background"], match["shape"], motion)


def paraphrase(scene: Scene, rng: random.Random) -> str:
    """Return a training sentence: the caption with probability 1/2, else a template with synonyms."""
    if rng.random() < 0.5:
        return caption(scene)
    motion = rng.choice(_MOTION_SYNONYMS[scene.motion])
    sentence = rng.choice(_TEMPLATES).format(
        fg=rng.choice(_COLOUR_SYNONYMS.get(scene.foreground, (scene.foreground,))),
        bg=rng.choice(_COLOUR_SYNONYMS.get(scene.background, (scene.background,))),
        shape=rng.choice(_SHAPE_SYNONYMS[scene.shape]),
        motion=f" {motion}" if motion else "",
        size=rng.choice(_FILLERS),
    )
    return fix_article(sentence) + rng.choice(_ENDINGS)


def vocabulary() -> tuple[str, ...]:
    """Return every word and punctuation mark that a training sentence can contain, sorted."""
    groups = (*_COLOUR_SYNONYMS.values(), *_SHAPE_SYNONYMS.values(), *_MOTION_SYNONYMS.values())
    phrases = [word for group in groups for word in group]
    phrases += [*RGB, *SHAPES, *MOTION_PHRASES.values(), *_TEMPLATES, *_FILLERS, *_ENDINGS, "a an"]
    text = re.sub(r"\{\w+\}", " ", " ".join(phrases))
    return tuple(sorted(set(re.findall(r"\w+|[^\w\s]", text))))


_CANONICAL = re.compile(
    rf"an? (?P<foreground>{'|'.join(FOREGROUNDS)}) (?P<shape>{'|'.join(SHAPES)})"
    rf"(?P<motion>{'|'.join(phrase for phrase in MOTION_PHRASES.values() if phrase)})?"
    rf" on an? (?P<background>{'|'.join(BACKGROUNDS)}) background"
)
_COLOUR_SYNONYMS = {"purple": ("purple", "violet"), "gray": ("gray", "grey")}
_SHAPE_SYNONYMS = {
    "circle": ("circle", "circle", "disc", "disk", "ball", "dot"),
    "square": ("square", "square", "box", "block"),
    "triangle": ("triangle",),
}
_MOTION_SYNONYMS = {
    "still": ("", "", "standing still", "at rest", "that stays in place", "not moving", "staying still"),
    "right": (
        "moving right",
        "moving to the right",
        "going right",
        "that moves right",
        "sliding right",
        "drifting right",
        "flying to the right",
        "sliding from left to right",
    ),
    "left": (
        "moving left",
        "moving to the left",
        "going left",
        "that moves left",
        "sliding left",
        "drifting left",
        "flying to the left",
        "sliding from right to left",
    ),
    "up": ("moving up", "rising", "going up", "moving upwards", "that moves up", "that rises", "floating up"),
    "down": (
        "moving down",
        "falling",
        "going down",
        "moving downwards",
        "that moves down",
        "that falls",
        "dropping",
    ),
    "growing": ("growing", "getting bigger", "expanding", "that grows", "getting larger"),
    "shrinking": ("shrinking", "getting smaller", "contracting", "that shrinks"),
}
_TEMPLATES = (
    "a {fg} {shape}{motion} on a {bg} background",
    "a {size}{fg} {shape}{motion} on a {bg} background",
    "{fg} {shape}{motion} on {bg}",
    "{fg} {shape}{motion}, {bg} background",
    "the {fg} {shape}{motion} on the {bg} background",
    "a {fg} {shape}{motion} over a plain {bg} background",
    "a {fg} {shape}{motion} in front of a {bg} backdrop",
    "a video of a {fg} {shape}{motion} on a {bg} background",
    "an image of a {fg} {shape}{motion} on a {bg} background",
    "a photo of a {size}{fg} {shape}{motion} on a {bg} background",
    "a picture of a {fg} {shape}{motion} on a {bg} background",
    "an animation of one {size}{fg} {shape}{motion} against a {bg} background",
    "on a {bg} background, a {fg} {shape}{motion}",
    "{bg} background with a {fg} {shape}{motion}",
    "a {bg} scene with a {size}{fg} {shape}{motion}",
    "draw a {fg} {shape}{motion} on a {bg} background",
    "please show a {fg} {shape}{motion} on a solid {bg} background",
    "a simple clip: a {fg} {shape}{motion} on {bg}",
)
_FILLERS = ("", "", "single ", "solid ", "bright ", "flat ", "nice ", "simple ")
_ENDINGS = ("", "", "", ".", ", high quality", ", smooth", ", minimal", ", 2d")
