"""Shortcuts to the request of a valid row, for rows that differ from an earlier one only in id, texts and seed.

A fast path never reports a mistake: where it is not certain that there is none, it returns None and the row is parsed
and validated in full.
"""

import re
from collections.abc import Callable, Sequence, Set

import msgspec
from msgspec.structs import replace

from omni_cli.errors import DiagnosticError
from omni_cli.prompts.fields import FIELDS, NESTED, RULES, field_of
from omni_cli.prompts.rules import MAX_ID
from omni_cli.request import MAX_SEED, GenerationRequest

_VARYING = ("id", "prompt", "negative_prompt", "seed")
"""Fields in which the rows of a file differ. The values of the others are checked once and remembered."""

_NOT_SHARED = dict.fromkeys(_VARYING)

_MAX_REMEMBERED = 256
"""Combinations of shared values that are remembered in one file."""

_SEED_DIGITS = 18
"""Digits that any seed below MAX_SEED may have."""


class FastPath:
    """The fast path of formats without one: every row is validated in full."""

    def request(self, raw: bytes) -> GenerationRequest | None:
        """Return the request of the row `raw` if it certainly has no mistake."""
        return None

    def remember(self, raw: bytes, request: GenerationRequest) -> None:
        """Learn from the valid row `raw` and its `request`."""


class JsonFastPath(FastPath):
    """The fast path of JSON rows that use the names of the fields; it keeps the number of fields per shared values."""

    def __init__(self) -> None:
        """Start with nothing remembered."""
        self._counts: dict[bytes, int] = {}

    def request(self, raw: bytes) -> GenerationRequest | None:
        """Return the request of a JSON object with a prompt, and no field twice.

        The decoder silently keeps the last of two equal keys. Every key, at any depth, is followed by a quote and a
        colon. If there are no more of these than fields with a value, no key is there twice.
        """
        try:
            request = _DECODER.decode(raw)
            # Encoded, since lists and objects cannot be hashed.
            key = _ENCODER.encode(replace(request, **_NOT_SHARED))
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
            return None
        count = self._counts.get(key)
        if count is None:
            count = _count_shared_values(request)
            if count is None:
                return None
            if len(self._counts) < _MAX_REMEMBERED:
                self._counts[key] = count
        prompt = request.prompt
        if prompt is None or not prompt.strip():
            return None
        if not (prompt.isascii() and prompt.isprintable()) and not _keeps_rule("prompt", prompt):
            return None
        count += 1
        if request.seed is not None:
            count += 1
            if not 0 <= request.seed <= MAX_SEED:
                return None
        if request.id is not None:
            count += 1
            if not (_is_plain(request.id) and len(request.id) <= MAX_ID) and not _keeps_rule("id", request.id):
                return None
        if request.negative_prompt is not None:
            count += 1
            if not _is_plain(request.negative_prompt) and not _keeps_rule("negative_prompt", request.negative_prompt):
                return None
        if raw.count(b":") == count or len(_KEY_END.findall(raw)) == count:
            return request
        return None


class CellFastPath(FastPath):
    """The fast path of a table's records; it keeps the values that cells of the shared columns had in a valid row."""

    def __init__(self, names: Sequence[str | None], delimiter: str, refused: Set[str] = frozenset()) -> None:
        """Use the columns `names`, None for one that is ignored, which rules the fast path out.

        A text that is in `refused` may be a mistake.
        """
        fields = [None if name is None else field_of(name) for name in names]
        self._delimiter, self._width, self._refused = delimiter, len(fields), refused
        self._varying = [(name, at) for at, name in enumerate(fields) if name is not None and name in _VARYING]
        self._shared = [at for at, name in enumerate(fields) if name not in _VARYING]
        # Lists and dicts must not be shared between requests.
        self._usable = "prompt" in fields and not any(name is None or name in NESTED for name in fields)
        self._values: dict[tuple[str, ...], dict[str, object]] = {}

    def request(self, raw: bytes) -> GenerationRequest | None:
        """Return the request of a record without quotes whose shared cells equal those of an earlier one."""
        if not self._values or not raw.isascii() or b'"' in raw:
            return None
        cells = raw.decode("ascii").split(self._delimiter)
        if len(cells) != self._width:
            return None
        shared = self._values.get(tuple([cells[at] for at in self._shared]))
        if shared is None:
            return None
        varying: dict[str, str | int] = {}
        for name, at in self._varying:
            text = cells[at].strip(" ")
            if name == "seed" and text:
                if not text.isdigit() or len(text) > _SEED_DIGITS or (text[0] == "0" and text != "0"):
                    return None
                varying[name] = int(text)
            elif text in self._refused:
                return None
            elif _is_plain(text) and not (name == "id" and len(text) > MAX_ID):
                varying[name] = text
            elif text or name == "prompt":
                return None
        return _BUILD(**varying, **shared)

    def remember(self, raw: bytes, request: GenerationRequest) -> None:
        """Remember the shared values of `request` under the shared cells of `raw`."""
        if not self._usable or b'"' in raw or b"\r" in raw or not raw.isascii() or len(self._values) >= _MAX_REMEMBERED:
            return
        cells = raw.decode("ascii").split(self._delimiter)
        self._values[tuple([cells[at] for at in self._shared])] = {
            name: value for name in FIELDS if name not in _VARYING and (value := getattr(request, name)) is not None
        }


def _count_shared_values(request: GenerationRequest) -> int | None:
    """Return how many fields but the varying ones `request` has, None if one of them breaks its rule."""
    values = [
        (name, value) for name in FIELDS if name not in _VARYING and (value := getattr(request, name)) is not None
    ]
    return len(values) if all(_keeps_rule(name, value) for name, value in values) else None


def _is_plain(text: str) -> bool:
    """Return True for visible printing ASCII, which keeps the rule of prompts, and, unless too long, that of ids."""
    return text.isascii() and text.isprintable() and not text.isspace() and text != ""


def _keeps_rule(name: str, value: object) -> bool:
    """Return True if `value` is what the rule of the field makes of it; False for nested fields."""
    try:
        return name in RULES and RULES[name](value) == value
    except DiagnosticError:
        return False


_DECODER = msgspec.json.Decoder(GenerationRequest)
_ENCODER = msgspec.msgpack.Encoder()
_KEY_END = re.compile(rb'"[ \t\r\n]*+:')
_BUILD: Callable[..., GenerationRequest] = GenerationRequest
