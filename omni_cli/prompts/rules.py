"""Rules for single values: each returns the value in its field's type or raises DiagnosticError."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from omni_cli.errors import Diagnostic, DiagnosticError
from omni_cli.request import EXACT_INTEGERS, MAX_SEED
from omni_cli.text import did_you_mean, quote

FORMATS = (
    *("png", "jpeg", "jpg", "webp", "avif", "png16"),
    *("mp4", "webm", "mov", "mkv", "gif", "frames"),
    *("wav", "wav16", "flac"),
    *("npy", "npz", "safetensors", "latent"),
)
"""Names of writers that `format` accepts."""

A1111 = "a1111"
"""Name of the prompt syntax of AUTOMATIC1111's web UI."""

MAX_ID = 512
MAX_NAME = 4096
MAX_SIDE = 16384
MAX_FRAMES = 100_000
MAX_SECONDS = 3600
MAX_STEPS = 10000
MAX_OUTPUTS = 1000
MAX_FPS = 1000
MAX_INTERPOLATE = 64

Rule = Callable[[object], object]
"""Takes a value of any type. Raises DiagnosticError, without field and place, if the field cannot hold it."""


def unexpected(value: object, expected: str) -> DiagnosticError:
    """Return the error for `value` where the field expects a value as `expected` describes it."""
    if isinstance(value, Diagnostic):
        return DiagnosticError(value.cause, f"give {expected}")
    return DiagnosticError(f"expected {expected}, got {_describe(value)}")


def _describe(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case str():
            return quote(value)
        case list():
            return "a list"
        case _:
            return "an object"


def text(value: object) -> str:
    """Return text that can be encoded as UTF-8 and passed to a tokenizer; raises DiagnosticError for all else."""
    if not isinstance(value, str):
        raise unexpected(value, "text in double quotes")
    match = _UNENCODABLE.search(value)
    if match is not None:
        what = "a NUL character" if match.group() == "\0" else f"the lone surrogate {quote(match.group())[1:-1]}"
        raise DiagnosticError(f"holds {what}", "remove it: such text cannot be written as UTF-8 or passed on")
    return value


@dataclass(frozen=True, slots=True)
class NumberRule:
    """The rule of numbers from `low` to `high`, or, with `above`, above `low`."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False

    @property
    def expected(self) -> str:
        """What the rule accepts, in words."""
        if self.low == -math.inf:
            return "a finite number"
        if self.above:
            return f"a number above {self.low:g} up to {self.high:g}"
        return f"a number from {self.low:g} to {self.high:g}"

    def __call__(self, value: object) -> float:
        """Return `value` as a float. Raises DiagnosticError if the rule does not accept it."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise unexpected(value, self.expected)
        if not math.isfinite(value) or not self.low <= value <= self.high or (self.above and value == self.low):
            raise unexpected(value, self.expected)
        return float(value)

    def schema(self) -> dict[str, str | float]:
        """Return the rule as JSON Schema."""
        low = {} if self.low == -math.inf else {"exclusiveMinimum" if self.above else "minimum": self.low}
        high = {} if self.high == math.inf else {"maximum": self.high}
        return {"type": "number", **low, **high}


class WholeNumberRule(NumberRule):
    """The rule of whole numbers from `low` to `high`; 8.0 counts as 8, as JSON has one kind of number."""

    __slots__ = ()

    @property
    def expected(self) -> str:
        """What the rule accepts, in words."""
        return f"a whole number from {self.low} to {self.high}"

    def __call__(self, value: object) -> int:
        """Return `value` as an int. Raises DiagnosticError if the rule does not accept it."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise unexpected(value, self.expected)
        if (isinstance(value, float) and not value.is_integer()) or not self.low <= value <= self.high:
            raise unexpected(value, self.expected)
        return int(value)

    def schema(self) -> dict[str, str | float]:
        """Return the rule as JSON Schema."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


def real(low: float = -math.inf, high: float = math.inf, *, above: bool = False) -> NumberRule:
    """Return the rule of finite numbers from `low` to `high`, or, with `above`, above `low`."""
    return NumberRule(low, high, above)


def whole(low: int, high: int) -> WholeNumberRule:
    """Return the rule of whole numbers from `low` to `high`."""
    return WholeNumberRule(low, high)


def seed(value: object) -> int:
    """Return the seed that a whole number says, or the text of one above EXACT_INTEGERS, as manifests write it."""
    digits = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= len(str(MAX_SEED))
    large = int(value) if digits and isinstance(value, str) else 0
    return whole(0, MAX_SEED)(large if large > EXACT_INTEGERS else value)


def path(value: object) -> str:
    """Return the path of an input file as written; raises DiagnosticError if it is empty."""
    name = text(value)
    if not name.strip():
        raise DiagnosticError("is empty", "give the path of a file")
    return name


def _one_line(value: object, what: str, limit: int) -> str:
    line = text(value)
    if not line.strip():
        raise DiagnosticError("is empty", f"give {what} at least one visible character")
    if len(line) > limit:
        raise DiagnosticError(f"has {len(line)} characters", f"give {what} at most {limit}")
    match = _CONTROL.search(line)
    if match is not None:
        cause = f"holds the control character {quote(match.group())[1:-1]}"
        raise DiagnosticError(cause, "use printing characters only")
    return line


def request_id(value: object) -> str:
    """Return one line of text, for a whole number its decimal digits; raises DiagnosticError for all else."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return _one_line(value, "an id", MAX_ID)


def output_name(value: object) -> str:
    """Return a POSIX path below the output folder; raises DiagnosticError for one that leaves it."""
    name = _one_line(value, "a file name", MAX_NAME)
    if "\\" in name or _DRIVE.match(name):
        raise DiagnosticError(f"{quote(name)} has a drive or a backslash", "separate folders with /")
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or not parts:
        raise DiagnosticError(f"{quote(name)} leaves the output folder", "give a relative path without ..")
    return name


def model_name(value: object) -> str:
    """Return a folder, a file, a hub id or "demo"; the planner checks whether there is such a model."""
    return _one_line(value, "the name of a model", MAX_NAME)


def format_name(value: object) -> str:
    """Return the name of a format in lower case; raises DiagnosticError for one that is not in FORMATS."""
    name = text(value).lower()
    if name not in FORMATS:
        known = f"known: {', '.join(FORMATS)}"
        raise DiagnosticError(f"unknown format {quote(name)}", did_you_mean(name, FORMATS, known))
    return name


def weighting(value: object) -> str:
    """Return the name of a syntax of weights; raises DiagnosticError for one that is not known."""
    name = text(value)
    if name != A1111:
        raise DiagnosticError(f"unknown syntax {quote(name)}", f"known: {A1111}, as in (red:1.3)")
    return name


def size(value: object) -> tuple[int, int] | None:
    """Return (width, height) of a "WxH" text, None for "auto"; raises DiagnosticError for all else."""
    match = _SIZE.fullmatch(text(value).strip().lower())
    if match is None:
        raise unexpected(value, '"WIDTHxHEIGHT", such as "768x512"')
    if match["width"] is None:
        return None
    side = whole(1, MAX_SIDE)
    return side(int(match["width"])), side(int(match["height"]))


_UNENCODABLE = re.compile("[\0\ud800-\udfff]")
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")
_DRIVE = re.compile(r"[A-Za-z]:")
_SIZE = re.compile(r"auto|(?P<width>[0-9]{1,9})\s*[x×*]\s*(?P<height>[0-9]{1,9})")
