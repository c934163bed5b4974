"""Rules of single values: each gives the value back in its field's type, or says what is wrong and what would be right."""

import math
import re
from collections.abc import Callable
from pathlib import PurePosixPath

from omni_cli.prompts.nodes import Odd
from omni_cli.prompts.shown import quoted

FORMATS = (
    *("png", "jpeg", "jpg", "webp", "avif", "png16"),
    *("mp4", "webm", "mov", "mkv", "gif", "frames"),
    *("wav", "wav16", "flac"),
    *("npy", "npz", "safetensors", "latent"),
)
"""Names of writers that `format` may ask for."""

MAX_ID = 512
MAX_SIDE = 16384
MAX_FRAMES = 100_000
MAX_STEPS = 10000
MAX_OUTPUTS = 1000
MAX_FPS = 1000
MAX_INTERPOLATE = 64

Rule = Callable[[object], object]
"""Gives back the value in its field's type, or raises Unfit."""


class Unfit(Exception):
    """A value that its field cannot take: what is wrong, and what to write."""

    def __init__(self, message: str, allowed: str) -> None:
        """Keep both halves of the message."""
        super().__init__(message)
        self.message, self.allowed = message, allowed


def describe(value: object) -> str:
    """`value` in words, for "X is ..." messages."""
    match value:
        case Odd(text, why):
            return f"{quoted(text)[1:-1]} {why}"
        case bool():
            return f"{str(value).lower()} is a boolean"
        case int() | float():
            return f"{value} is a number"
        case str():
            return f"{quoted(value)} is text"
        case list():
            return "this is a list"
        case None:
            return "null says nothing"
        case _:
            return "this is an object"


def text(value: object) -> str:
    """Any text that can be written as UTF-8 and handed to a tokenizer."""
    if not isinstance(value, str):
        raise Unfit(describe(value), "give text in double quotes")
    found = _UNWRITABLE.search(value)
    if found is not None:
        what = "a NUL character" if found.group() == "\0" else f"the lone surrogate {quoted(found.group())[1:-1]}"
        raise Unfit(f"holds {what}", "remove it: such text cannot be written as UTF-8 or passed on")
    return value


def real(low: float = -math.inf, high: float = math.inf, *, above: bool = False) -> Callable[[object], float]:
    """A finite number from `low` (or, with `above`, just over it) to `high`."""
    bounds = (
        "a finite number"
        if low == -math.inf
        else f"a number {'above' if above else 'from'} {low:g} {'up ' if above else ''}to {high:g}"
    )

    def rule(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Unfit(describe(value), f"give {bounds}")
        if not math.isfinite(value) or not low <= value <= high or (above and value == low):
            raise Unfit(f"{value} is out of range", f"give {bounds}")
        return float(value)

    return rule


def whole(low: int, high: int) -> Callable[[object], int]:
    """A whole number from `low` to `high`; 8.0 counts as 8, as JSON has one kind of number."""
    allowed = f"give a whole number from {low} to {high}"

    def rule(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Unfit(describe(value), allowed)
        if isinstance(value, float) and not value.is_integer():
            raise Unfit(f"{value} is not whole", allowed)
        if not low <= value <= high:
            raise Unfit(f"{value} is out of range", allowed)
        return int(value)

    return rule


def path(value: object) -> str:
    """The path of an input file, as written."""
    name = text(value)
    if not name.strip():
        raise Unfit("is empty", "give the path of a file")
    return name


def _one_line(value: object, what: str, limit: int) -> str:
    line = text(value)
    found = _CONTROL.search(line)
    if not line.strip():
        raise Unfit("is empty", f"give {what} at least one visible character")
    if len(line) > limit:
        raise Unfit(f"has {len(line)} characters", f"give {what} at most {limit}")
    if found is not None:
        raise Unfit(f"holds the control character {quoted(found.group())[1:-1]}", "use printing characters only")
    return line


def request_id(value: object) -> str:
    """One line of text; a whole number becomes its decimal text."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return _one_line(value, "an id", MAX_ID)


def output_name(value: object) -> str:
    """A POSIX path below the output folder."""
    name = _one_line(value, "a file name", 4096)
    if "\\" in name or _DRIVE.match(name):
        raise Unfit(f"{quoted(name)} has a drive or a backslash", "separate folders with /")
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or not parts:
        raise Unfit(f"{quoted(name)} leaves the output folder", "give a relative path without ..")
    return name


def model_name(value: object) -> str:
    """A folder, a file, a hub id, or "demo"; whether there is such a model is asked later."""
    return _one_line(value, "the name of a model", 4096)


def format_name(value: object) -> str:
    name = text(value).lower()
    if name not in FORMATS:
        raise Unfit(f"{quoted(name)} is no known format", f"give one of {', '.join(FORMATS)}")
    return name


def size(value: object) -> tuple[int, int] | None:
    """Width and height of a "WxH" text; None for "auto", which says nothing."""
    found = _SIZE.fullmatch(text(value).strip().lower())
    if found is None:
        raise Unfit(f"{quoted(text(value))} is no size", 'give "WIDTHxHEIGHT", such as "768x512"')
    if found["width"] is None:
        return None
    side = whole(1, MAX_SIDE)
    return side(int(found["width"])), side(int(found["height"]))


_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")
_DRIVE = re.compile(r"[A-Za-z]:")
_SIZE = re.compile(r"auto|(?P<width>[0-9]{1,9})\s*[x×*]\s*(?P<height>[0-9]{1,9})")
