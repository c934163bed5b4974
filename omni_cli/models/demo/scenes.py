"""The scenes that the demo model draws, and the prompt for each. Standard library only: the parent imports this."""

import re
from dataclasses import dataclass

FOREGROUNDS = ("red", "green", "blue", "yellow", "orange", "purple", "white", "black")
BACKGROUNDS = ("white", "black", "gray", "blue", "green", "yellow")
SHAPES = ("circle", "square", "triangle")
MOTION_PHRASES = {
    "still": "",
    "right": " moving right",
    "left": " moving left",
    "up": " moving up",
    "down": " moving down",
    "growing": " growing",
    "shrinking": " shrinking",
}
"""The words for each motion in a caption, with the space before them."""


@dataclass(frozen=True)
class Scene:
    """A shape of one colour on a plain background; `motion` is its motion, or change of size, over the clip."""

    foreground: str
    background: str
    shape: str
    motion: str


def all_scenes() -> tuple[Scene, ...]:
    """Return all 903 combinations in a fixed order; foreground and background always differ."""
    return tuple(
        Scene(foreground, background, shape, motion)
        for foreground in FOREGROUNDS
        for background in BACKGROUNDS
        if foreground != background
        for shape in SHAPES
        for motion in MOTION_PHRASES
    )


def caption(scene: Scene) -> str:
    """Return the canonical prompt of `scene`: "a red circle moving right on a blue background"."""
    motion = MOTION_PHRASES[scene.motion]
    return fix_article(f"a {scene.foreground} {scene.shape}{motion} on a {scene.background} background")


def fix_article(sentence: str) -> str:
    """Return `sentence` with "an" before "orange"."""
    return re.sub(r"\ba (?=orange)", "an ", sentence)
