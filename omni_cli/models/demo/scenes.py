"""What the demo model can draw: colours, shapes, motions, the sentences for them, and the split.

Pure standard library, so that planners, tests and the detector can ask without loading torch.
"""

import hashlib
import random
import re
from dataclasses import dataclass
from functools import cache

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
"""Exact sRGB values, 0-255, of the flat areas that training drew."""

FOREGROUNDS = ("red", "green", "blue", "yellow", "orange", "purple", "white", "black")
BACKGROUNDS = ("white", "black", "gray", "blue", "green", "yellow")
SHAPES = ("circle", "square", "triangle")
MOTIONS = ("still", "right", "left", "up", "down", "growing", "shrinking")

SQUARE, TRIANGLE = 0.92, 1.35
"""Half side of the square and circumradius of the triangle, for a circle of radius 1: near equal in area."""

HELD_OUT = 210
"""How many of the 903 combinations training never sees."""


@dataclass(frozen=True)
class Scene:
    """One shape of one colour on a plain background; `motion` is what it does over the clip."""

    foreground: str
    background: str
    shape: str
    motion: str


def travel(frames: int) -> float:
    """How far a moving shape goes from the first frame to the last, as a fraction of the side it runs along."""
    return min(0.04 * (frames - 1), 0.36)


def growth(frames: int) -> float:
    """Natural logarithm of a growing shape's last size over its first."""
    return min(0.08 * (frames - 1), 0.55)


def caption(scene: Scene) -> str:
    """The canonical sentence: the one that `parse` reads back."""
    motion = _MOTION_WORDS[scene.motion]
    return _article(f"a {scene.foreground} {scene.shape}{motion} on a {scene.background} background")


def parse(prompt: str) -> Scene | None:
    """The scene of a canonical caption (case and outer spaces aside); None for any other sentence."""
    found = _CANONICAL.fullmatch(prompt.strip().lower())
    if found is None or found["foreground"] == found["background"]:
        return None
    motion = next(m for m, words in _MOTION_WORDS.items() if words == (found["motion"] or ""))
    return Scene(found["foreground"], found["background"], found["shape"], motion)


def all_scenes() -> tuple[Scene, ...]:
    """All 903 combinations, in a fixed order; foreground and background always differ."""
    return tuple(
        Scene(fg, bg, shape, motion)
        for fg in FOREGROUNDS
        for bg in BACKGROUNDS
        if fg != bg
        for shape in SHAPES
        for motion in MOTIONS
    )


@cache
def held_out() -> tuple[Scene, ...]:
    """The 210 combinations kept from training: those whose captions have the smallest SHA-256."""
    return tuple(sorted(all_scenes(), key=_rank)[:HELD_OUT])


@cache
def training_scenes() -> tuple[Scene, ...]:
    """The 693 combinations that training draws from."""
    unseen = set(held_out())
    return tuple(scene for scene in all_scenes() if scene not in unseen)


def paraphrase(scene: Scene, rng: random.Random) -> str:
    """A training sentence: the canonical one half of the time, else a template with synonyms."""
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
    return _article(sentence) + rng.choice(_ENDINGS)


def vocabulary() -> tuple[str, ...]:
    """Every word and mark that a training sentence can contain, sorted."""
    groups = (*_COLOUR_SYNONYMS.values(), *_SHAPE_SYNONYMS.values(), *_MOTION_SYNONYMS.values())
    phrases = [word for group in groups for word in group]
    phrases += [*RGB, *SHAPES, *_MOTION_WORDS.values(), *_TEMPLATES, *_FILLERS, *_ENDINGS, "a an"]
    text = re.sub(r"\{\w+\}", " ", " ".join(phrases))
    return tuple(sorted(set(re.findall(r"\w+|[^\w\s]", text))))


def _rank(scene: Scene) -> bytes:
    return hashlib.sha256(caption(scene).encode()).digest()


def _article(sentence: str) -> str:
    return re.sub(r"\ba (?=orange)", "an ", sentence)


_MOTION_WORDS = {
    "still": "",
    "right": " moving right",
    "left": " moving left",
    "up": " moving up",
    "down": " moving down",
    "growing": " growing",
    "shrinking": " shrinking",
}
_CANONICAL = re.compile(
    rf"an? (?P<foreground>{'|'.join(FOREGROUNDS)}) (?P<shape>{'|'.join(SHAPES)})"
    rf"(?P<motion>{'|'.join(w for w in _MOTION_WORDS.values() if w)})?"
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
