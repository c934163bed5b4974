"""Text for people: foreign text made safe to print, guesses at misspelled names, byte counts.

escape      for error messages: whatever does not print becomes a backslash escape
quote       the same for a value, cut short and in double quotes
printable   for the live view: whatever acts on a terminal becomes a visible sign; every script stays readable
encodable   for files that must be UTF-8: lone surrogates become question marks
caseless    for comparing names as the least capable file system would
"""

import difflib
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

QUOTED_LENGTH = 60
"""Characters of a value that a message shows."""

# Control characters, line and paragraph separators, lone surrogates, bidi embeddings, overrides and isolates, and
# invisible characters. Joiners, variation selectors and plain direction marks stay: scripts need them.
_ACTS_ON_TERMINAL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u202a-\u202e\u2066-\u2069"
    "\u200b\u2060-\u2064\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def escape(text: str, keep: str = "") -> str:
    """Return `text` with a backslash escape for every character that neither prints nor is in `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def quote(text: str, limit: int = QUOTED_LENGTH) -> str:
    """Return the first `limit` characters of `text`, escaped, in double quotes."""
    head = text[:limit].replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escape(head)}{"…" if len(text) > limit else ""}"'


def printable(text: str) -> str:
    """Return `text` on one line, with whatever could move the cursor, reorder or hide text made visible.

    C0 controls become their control pictures (ESC: ␛), others `<U+202E>`.
    """
    return _ACTS_ON_TERMINAL.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"


def encodable(text: str) -> str:
    """Return `text` with question marks for lone surrogates, which no encoding can write."""
    return text.encode("utf-8", "replace").decode("utf-8")


def encodable_value(value: object) -> object:
    """Return `value`, made of dicts, lists and scalars, with question marks for lone surrogates in every text of it."""
    match value:
        case str():
            return encodable(value)
        case dict():
            return {encodable_value(key): encodable_value(item) for key, item in value.items()}
        case list() | tuple():
            return [encodable_value(item) for item in value]
        case _:
            return value


def caseless(name: str) -> str:
    """Return the canonical caseless form of `name` (Unicode 3.13, D145), which is lower case in ASCII."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the name of `known` (in lower case) that `name` may be a slip of, or "" if there is none."""
    return _nearest(name[:QUOTED_LENGTH].lower(), tuple(known))


@lru_cache(maxsize=256)  # a file may misspell one field in every row
def _nearest(name: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.7)
    return next((guess for guess in close if _has_similar_words(name, guess)), "")


def _has_similar_words(name: str, guess: str) -> bool:
    """Return False if names of as many words differ in a whole word, as `image_type` and `image_path` do."""
    pairs = [re.split(r"[_\W]+", one) for one in (name, guess)]
    if len(pairs[0]) != len(pairs[1]):
        return True
    return all(difflib.SequenceMatcher(None, *words).ratio() > 0.5 for words in zip(*pairs, strict=True))


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return `did you mean "size"?` for the nearest of `known`, or `otherwise` if none is like `name`."""
    guess = nearest(name, known)
    return f"did you mean {quote(guess)}?" if guess else otherwise


def byte_count(count: int) -> str:
    """Return `count` bytes in binary units with one decimal: `812 B`, `1.5 MiB`."""
    if count < 1024:
        return f"{count} B"
    value, units = count / 1024, iter(("KiB", "MiB", "GiB", "TiB"))
    for unit in units:
        if value < 1024:
            return f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} PiB"
