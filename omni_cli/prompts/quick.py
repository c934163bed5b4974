"""The short way to a sound request, for rows that agree with an earlier one in all but id, texts and seed.

It never finds a fault: where it is not certain that there is none, it says None, and the row is judged the long way.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter

import msgspec

from omni_cli.prompts.fields import FIELDS, RULES, known
from omni_cli.prompts.rules import MAX_ID, Unfit
from omni_cli.request import MAX_SEED, GenerationRequest

_OWN = ("id", "prompt", "negative_prompt", "seed")
"""Fields in which the rows of a file differ."""

_shared = attrgetter(*(name for name in FIELDS if name not in _OWN))

_MUTABLE = ("image", "lora", "extra")
"""Fields whose values must not be shared between requests."""

_KEPT = 256
"""Kinds of rows that are remembered in one file."""

_SEED_DIGITS = 18
"""Digits that any seed below MAX_SEED may have."""


class Quick:
    """For the JSON rows of one file: which values of the shared fields keep their rules, and how many are said."""

    def __init__(self) -> None:
        """With nothing judged."""
        self._said: dict[object, int] = {}

    def request(self, raw: bytes) -> GenerationRequest | None:
        """The request of a JSON row that is in our own names and without fault.

        A decoder keeps the last of two equal names silently. Every name in the text, at any depth, is followed by a colon;
        so if there are no more colons than fields with a value, no name was there twice.
        """
        try:
            request = _DECODER.decode(raw)
            said = self._said.get(_shared(request))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError):
            return None
        if said is None:
            said = self._judged(request)
        seed = request.seed
        if seed is not None:
            said += 1
            if not 0 <= seed <= MAX_SEED:
                return None
        prompt = request.prompt
        if prompt is None or not prompt.isascii() or not prompt.isprintable() or not prompt.strip():
            return None
        said += 1
        if request.id is not None:
            said += 1
            if not _plain(request.id) or len(request.id) > MAX_ID:
                return None
        if request.negative_prompt is not None:
            said += 1
            if not _plain(request.negative_prompt):
                return None
        return request if raw.count(b":") == said else None

    def _judged(self, request: GenerationRequest) -> int:
        """How many shared fields `request` gives, remembered if they keep their rules; a number that fits no row if not."""
        said = 0
        for name in FIELDS:
            value = getattr(request, name)
            if name in _OWN or value is None:
                continue
            said += 1
            try:
                if name not in RULES or RULES[name](value) != value:
                    return _NEVER
            except Unfit:
                return _NEVER
        if len(self._said) < _KEPT:
            self._said[_shared(request)] = said
        return said


class QuickCells:
    """For the records of one table: the values that equal cells of the shared columns have had in a sound request."""

    def __init__(self, names: Sequence[str | None], delimiter: str) -> None:
        """`names` are the columns; where one is of no use or holds lists, every record goes the long way."""
        fields = [None if name is None else known(name) for name in names]
        self._delimiter, self._count = delimiter, len(fields)
        self._own = [(name, at) for at, name in enumerate(fields) if name in _OWN and name is not None]
        self._shared = [at for at, name in enumerate(fields) if name not in _OWN]
        self._able = "prompt" in fields and not any(name is None or name in _MUTABLE for name in fields)
        self._values: dict[tuple[str, ...], dict[str, object]] = {}

    def request(self, raw: bytes) -> GenerationRequest | None:
        """The request of a record without quotes whose shared cells are those of an earlier one."""
        if not self._values or not raw.isascii() or b'"' in raw:
            return None
        cells = raw.decode("ascii").split(self._delimiter)
        if len(cells) != self._count:
            return None
        values = self._values.get(tuple([cells[at] for at in self._shared]))
        if values is None:
            return None
        own: dict[str, str | int] = {}
        for name, at in self._own:
            text = cells[at].strip(" ")
            if name == "seed" and text:
                if not text.isdigit() or len(text) > _SEED_DIGITS or (text[0] == "0" and text != "0"):
                    return None
                own[name] = int(text)
            elif _plain(text) and not (name == "id" and len(text) > MAX_ID):
                own[name] = text
            elif text or name == "prompt":
                return None
        return _BUILD(**own, **values)

    def remember(self, raw: bytes, request: GenerationRequest) -> None:
        """The record `raw` was found to be the sound `request`."""
        if not self._able or b'"' in raw or b"\r" in raw or not raw.isascii() or len(self._values) >= _KEPT:
            return
        cells = raw.decode("ascii").split(self._delimiter)
        values = {name: value for name in FIELDS if name not in _OWN and (value := getattr(request, name)) is not None}
        self._values[tuple([cells[at] for at in self._shared])] = values


def _plain(text: str) -> bool:
    """True for printing ASCII with something to see: such text keeps the rules of prompts, and but for its length of ids."""
    return text.isascii() and text.isprintable() and not text.isspace() and text != ""


_NEVER = -100

_DECODER = msgspec.json.Decoder(GenerationRequest)
_BUILD: Callable[..., GenerationRequest] = GenerationRequest
