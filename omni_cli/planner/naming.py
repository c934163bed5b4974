"""File names from foreign text: any script survives, nothing in a name can act on a path, a shell or a screen.

A part of a path becomes NFC; separators, controls, bidi marks, and what Windows reserves become "_"; so do leading dots,
dashes and spaces, and trailing dots and spaces. A part is cut by bytes, at a character boundary, and a cut part ends
in a hash of the whole, so that two long names with one beginning stay two names.
"""

import re
import unicodedata
from hashlib import blake2b

from omni_cli.writers.formats import FORMATS

MAX_PART_BYTES = 255 - 60
"""Bytes of one part of a path: 255 is what file systems take, 60 stay free for the decoration of a temporary name."""

MAX_PATH_BYTES = 4096 - 64
"""Bytes of a whole path, less the same decoration; PATH_MAX of Linux."""

_UNSAFE = re.compile(
    '[\0-\x1f\x7f-\x9f/\\\\<>:"|?*\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]'
)
_LEADING = re.compile(r"\A[.\-\s]+")
_TRAILING = re.compile(r"[.\s]+\Z")
# learn.microsoft.com/windows/win32/fileio/naming-a-file: these name devices, with any extension.
_DEVICE = re.compile(r"(?:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[0-9¹²³]) *(?:\.|\Z)", re.IGNORECASE)

_OURS = {form.extension.removeprefix(".") for form in FORMATS if form.extension} | {form.name for form in FORMATS}
_FOREIGN = frozenset(
    "apng avi bmp exr flv heic heif jfif jxl m4a m4v mp3 mpeg mpg ogg opus tga tif tiff wmv".split()  # noqa: SIM905
)
"""Extensions of media that people name files by and no writer here makes."""


class Misnamed(Exception):
    """A name that cannot be used: the field at fault, what is wrong, what to write."""

    def __init__(self, field: str, message: str, allowed: str = "") -> None:
        """Keep the three parts of a problem."""
        super().__init__(message)
        self.field, self.message, self.allowed = field, message, allowed


def neutral(text: str) -> str:
    """`text` with every character that must not be in a name as "_"; a value for a place inside a part."""
    return _UNSAFE.sub("_", unicodedata.normalize("NFC", text))


def clean(text: str) -> str:
    """`text` as one part of a path, of any length but never empty. Cleaning twice changes nothing."""
    part = _LEADING.sub(_underscores, neutral(text))
    part = _TRAILING.sub(_underscores, part)
    return "_" + part if not part or _DEVICE.match(part) else part


def fit(text: str, room: int) -> str:
    """`text` if it has at most `room` bytes (10 or more), else its beginning and a hash of the whole."""
    whole = text.encode()
    if len(whole) <= room:
        return text
    mark = "-" + blake2b(whole, digest_size=4).hexdigest()
    return whole[: room - len(mark)].decode(errors="ignore") + mark


def split_extension(name: str) -> tuple[str, str]:
    """(stem, extension as written, without the dot) of `name`; no extension unless it is one of a format that we write.

    Raises Misnamed for the extension of a medium that no writer makes: `clip.mov` must not become `clip.mov.mp4`.
    """
    stem, dot, extension = name.rpartition(".")
    if not dot or not stem:
        return name, ""
    if extension.lower() in _OURS:
        return stem, extension
    if extension.lower() in _FOREIGN:
        raise Misnamed("output", f".{extension} cannot be written", f"use one of {', '.join(sorted(_OURS))}")
    return name, ""


def _underscores(found: re.Match[str]) -> str:
    return "_" * len(found.group())
