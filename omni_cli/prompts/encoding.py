"""The encoding of a prompt file, and its text as UTF-8.

UTF-16 and UTF-32 are told by their byte order mark, or by their zero bytes. Windows-1252, which Excel writes for "CSV"
in Western Europe and America, has no mark: it is told by content that is not UTF-8 and reads as Western words.
"""

import codecs
import re
from typing import BinaryIO

from omni_cli.errors import UsageError
from omni_cli.text import quote

MARK = "\ufeff"
"""The byte order mark with which many programs begin a file; where files were joined it stands inside, too."""

WINDOWS_1252 = "cp1252"

_BLOCK_BYTES = 1 << 20

_MARKS = {  # the longer first: UTF-32's begins with UTF-16's
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def wide_encoding(head: bytes) -> str | None:
    """Return the UTF-16 or UTF-32 codec of a source that begins with `head` (4 bytes or more), None for other text."""
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    if len(head) < 4:
        return None
    zeros = [byte == 0 for byte in head[:4]]
    return {
        (False, True, False, True): "utf-16-le",
        (True, False, True, False): "utf-16-be",
        (False, True, True, True): "utf-32-le",
        (True, True, True, False): "utf-32-be",
    }.get((zeros[0], zeros[1], zeros[2], zeros[3]))


def single_byte_encoding(binary: BinaryIO) -> str | None:
    """Return "cp1252" if `binary`, which can seek, holds Western text in it from here on, None for UTF-8 and all else.

    `binary` is where it was afterwards. Other encodings of single bytes cannot be told from this one by their bytes,
    only by the words these would make: Cyrillic in Windows-1251 gives words of accented letters alone.
    """
    start = binary.tell()
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while block := binary.read(_BLOCK_BYTES):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        binary.seek(start)
        return WINDOWS_1252 if _is_western(binary) else None
    finally:
        binary.seek(start)
    return None


def _is_western(binary: BinaryIO) -> bool:
    """Return True if cp1252 makes nothing of `binary` that no Western text has."""
    while block := binary.read(_BLOCK_BYTES):
        try:
            if _NOT_WESTERN.search(block.decode(WINDOWS_1252)):
                return False
        except UnicodeDecodeError:
            return False
    return True


def check_encoding(encoding: str) -> None:
    """Raise UsageError if `encoding` is not the name of a codec of text."""
    try:
        "".encode(encoding)
    except (LookupError, ValueError) as error:
        known = "name one such as utf-8, cp1252 or utf-16"
        raise UsageError(f"the encoding {quote(encoding)} is not known; {known}") from error


def decoder_of(encoding: str) -> codecs.IncrementalDecoder:
    """Return a decoder of the codec `encoding`, which gives a lone surrogate for bytes that it cannot decode.

    Raises UsageError if there is no such codec.
    """
    check_encoding(encoding)
    return codecs.getincrementaldecoder(encoding)(_SURROGATE)


_SURROGATE = "omni_cli.surrogate"

codecs.register_error(_SURROGATE, lambda error: ("\udcff", getattr(error, "end", 0)))

_LETTERS = "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜßàáâãäåæçèéêëìíîïñòóôõöøùúûüÿŸŒœªº"
_SIGNS = "\u00a0¡¿«»€‚„…‘’“”•–—™®©°£¥¢§¶·×÷±´²½¼¾¨µ‰†ˆ˜‹›"

_NOT_WESTERN = re.compile(
    rf"[^\t\n\r -~{_LETTERS}{_SIGNS}]|[A-Za-z][²¿][A-Za-z]|[{_LETTERS}µ]{{3}}|[‚ˆ˜†‰][{_LETTERS}{_SIGNS}]"
)
"""A character that Western text seldom has, or a row of such: what the words of other code pages decode to."""
