"""Make safe file names from foreign text: any script survives, nothing in a name acts on a path, a shell or a screen.

A part of a path is normalized to NFC. Separators, controls, bidi marks and what Windows reserves become "_", and so do
leading dots, dashes and spaces, and trailing dots and spaces. A long part is cut by bytes, at a character boundary, and
ends in a hash of the whole, so that two long names with the same beginning stay distinct.
"""

import re
import unicodedata
from hashlib import blake2b

from omni_cli.errors import DiagnosticError
from omni_cli.writers.formats import FORMATS

MAX_PART_BYTES = 255 - 60
"""Bytes of one part of a path: the 255 of file systems, less 60 for prefix and suffix of a temporary name."""

MAX_PATH_BYTES = 4096 - 64
"""Bytes of a whole path: PATH_MAX of Linux, less the prefix and suffix of a temporary name."""

_UNSAFE = re.compile(
    '[\0-\x1f\x7f-\x9f/\\\\<>:"|?*\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]'
)
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_LEADING = re.compile(r"\A[.\-\s]+")
_TRAILING = re.compile(r"[.\s]+\Z")
# Names of devices, with any extension: learn.microsoft.com/windows/win32/fileio/naming-a-file
_WINDOWS_DEVICE = re.compile(r"(?:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[0-9¹²³]) *(?:\.|\Z)", re.IGNORECASE)

_WRITABLE = {form.extension.removeprefix(".") for form in FORMATS if form.extension} | {form.name for form in FORMATS}
_UNWRITABLE = frozenset(
    "apng avi bmp exr flv heic heif jfif jxl m4a m4v mp3 mpeg mpg ogg opus tga tif tiff wmv".split()  # noqa: SIM905
)
"""Common extensions of media that no writer here makes."""


def neutral(text: str) -> str:
    """Return `text` in NFC with "_" for every character that must not be in a name: a value inside a part."""
    return _UNSAFE.sub("_", unicodedata.normalize("NFC", text))


def clean(text: str) -> str:
    """Return `text` as one part of a path, of any length but never empty. The result cleans to itself."""
    part = _LEADING.sub(_underscores, neutral(text))
    part = _TRAILING.sub(_underscores, part)
    return "_" + part if not part or _WINDOWS_DEVICE.match(part) else part


def shorten(text: str, max_bytes: int) -> str:
    """Return `text` if it has at most `max_bytes` bytes (10 or more), else its beginning and a hash of the whole."""
    whole = text.encode()
    if len(whole) <= max_bytes:
        return text
    mark = "-" + blake2b(whole, digest_size=4).hexdigest()
    return whole[: max_bytes - len(mark)].decode(errors="ignore") + mark


def slug(text: str, max_bytes: int) -> str:
    """Return the beginning of `text` in lower case, its words joined by "-", in at most `max_bytes` bytes.

    Letters, digits and marks of any script stay; "" if there are none.
    """
    head = unicodedata.normalize("NFC", text[: 4 * max_bytes]).lower()
    if head.isascii():
        words = _ASCII_WORD.findall(head)
    else:
        words = "".join(c if unicodedata.category(c)[0] in "LNM" else " " for c in head).split()
    whole = "-".join(words).encode("utf-8", "ignore")
    if len(whole) <= max_bytes:
        return whole.decode()
    cut = whole[: max_bytes + 1].decode(errors="ignore")
    at = cut.rfind("-")
    return cut[:at] if at > max_bytes // 2 else whole[:max_bytes].decode(errors="ignore").rstrip("-")


def split_extension(name: str) -> tuple[str, str]:
    """Return stem and extension (as written, without the dot) of `name`; "" unless it is one of a format of ours.

    Raises DiagnosticError for the extension of a medium that no writer makes: `clip.wmv` must not become
    `clip.wmv.mp4`.
    """
    stem, dot, extension = name.rpartition(".")
    if not dot or not stem:
        return name, ""
    if extension.lower() in _WRITABLE:
        return stem, extension
    if extension.lower() in _UNWRITABLE:
        raise DiagnosticError(
            f".{extension} cannot be written", f"use one of {', '.join(sorted(_WRITABLE))}", field="output"
        )
    return name, ""


def output_extension(output: str | None) -> str:
    """Return the extension of an `output` field as `split_extension` does, and raise as it does; "" for None."""
    return split_extension(output.rpartition("/")[2])[1] if output else ""


def split_name(path: str) -> tuple[str, str]:
    """Return `path` without and with only the extension (its dot included) of its last part."""
    folder, slash, name = path.rpartition("/")
    stem, dot, extension = name.rpartition(".")
    return (folder + slash + stem, dot + extension) if stem else (path, "")


def _underscores(match: re.Match[str]) -> str:
    return "_" * len(match.group())
