"""Kinds of files by their extension (what decodes them), and of files that nothing here decodes by their content."""

import re
from pathlib import Path
from typing import NamedTuple

PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff"})
"""Frames of a folder of frames; decoded by Pillow."""

ANIMATIONS = frozenset({".gif", ".webp", ".png", ".apng"})
"""Clips that Pillow decodes. PyAV decodes a clip with any other extension."""

VIDEOS = frozenset({".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi"})
SOUNDS = frozenset({".wav", ".flac"})


HEAD_BYTES = 512
"""Bytes of a file's start that `foreign_content` needs."""

_HEIF_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"})


class ForeignContent(NamedTuple):
    """What a file holds instead of what its name says, and what to do about it."""

    name: str
    remedy: str


def foreign_content(head: bytes) -> ForeignContent | None:
    """Return what the first HEAD_BYTES of a file show it to be; None unless it is a kind that nothing here reads."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith(b"version https://git-lfs.github.com/spec/"):
        return ForeignContent("a git-lfs pointer, not the file itself", "run `git lfs pull` where it was cloned")
    if text.startswith((b"<!doctype html", b"<html", b"<head")):
        return ForeignContent("an HTML page, such as a server sends instead of a file", "download the file again")
    if text.startswith((b"<svg", b"<?xml", b"<!doctype svg", b"<!--")) and b"<svg" in text:
        return ForeignContent("an SVG drawing", "convert it to PNG")
    if head[4:8] == b"ftyp" and head[8:12] in _HEIF_BRANDS:
        return ForeignContent("a HEIC picture", "convert it to PNG or JPEG")
    if head.startswith(b"%PDF-"):
        return ForeignContent("a PDF document", "convert the page to PNG")
    if head.startswith((b"\xff\x0a", b"\0\0\0\x0cJXL ")):
        return ForeignContent("a JPEG XL picture", "convert it to PNG or JPEG")
    if head.startswith((b"PK\x03\x04", b"\x1f\x8b", b"7z\xbc\xaf\x27\x1c")):
        return ForeignContent("an archive", "unpack it")
    return None


def is_clip(path: str) -> bool:
    """Return True for a video file, a GIF or a folder of frames: a mask there has one picture per frame."""
    suffix = Path(path).suffix.lower()
    return suffix in VIDEOS or suffix == ".gif" or Path(path).is_dir()


def is_animation(path: str) -> bool:
    """Return True if Pillow decodes the clip at `path`."""
    return Path(path).suffix.lower() in ANIMATIONS


def frame_files(folder: str) -> list[Path]:
    """List the pictures in `folder` in natural order: 2.png before 10.png. Raises OSError."""
    pictures = [path for path in Path(folder).iterdir() if path.suffix.lower() in PICTURES and path.is_file()]
    return sorted(pictures, key=lambda path: [_natural_key(part) for part in re.split(r"([0-9]+)", path.name)])


def _natural_key(part: str) -> tuple[int, str]:
    return (int(part), part) if part.isascii() and part.isdigit() else (0, part)
