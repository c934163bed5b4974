"""Rows of a file mostly agree in all but id, texts and seed: what one of them passed, the next need not be asked again.

The short way is taken only where it is certain to end as the long one: the rest of the request is equal to one that had
no fault, and the file is the id and an extension, for an id that cleaning leaves as it is.
"""

import re
from operator import attrgetter

from omni_cli.inputs import FIELD_KINDS
from omni_cli.planner.resolve import Resolved
from omni_cli.request import MAX_SEED, GenerationRequest

_OWN = ("id", "prompt", "negative_prompt", "seed")
"""Fields in which rows differ. Checks see of them only whether they are there, and whether they can be encoded."""

_ALONE = (*FIELD_KINDS, "lora", "extra", "output")
"""Fields that make a request take the long way."""

_shared = attrgetter(*(name for name in GenerationRequest.__struct_fields__ if name not in _OWN))
_alone = attrgetter(*_ALONE)

_NOTHING = (None,) * len(_ALONE)

_PLAIN = re.compile(
    r"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|\Z))[a-z0-9_](?:[a-z0-9_.-]{0,98}[a-z0-9_-])?",
    re.IGNORECASE | re.ASCII,
)
"""Ids that `naming.clean` and `naming.fit` leave as they are."""

_KEPT = 1024
"""Requests that are remembered; a file with more kinds of rows takes the long way for the rest."""


class Alike:
    """Remembers which requests had no fault, by the fields that rows share, and the extension of their one file."""

    def __init__(self, name_template: str) -> None:
        """Where files are named by anything but the id alone, nothing is remembered."""
        self._by_id = name_template == "{id}"
        self._extensions: dict[object, str] = {}

    def remember(self, request: GenerationRequest, resolved: Resolved) -> None:
        """`request`, resolved as `resolved`, has no fault but perhaps in its names."""
        one_plain_file = self._by_id and resolved.request.num_outputs == 1 and _alone(request) == _NOTHING
        one_plain_file = one_plain_file and not resolved.form.is_folder
        if one_plain_file and request.prompt is not None and len(self._extensions) < _KEPT:
            self._extensions[_shared(request), request.negative_prompt is None] = resolved.form.extension

    def file(self, request: GenerationRequest, request_id: str) -> str | None:
        """The file of `request`, which can have no fault but in its place; None if only the long way can tell."""
        prompt, negative, seed = request.prompt, request.negative_prompt, request.seed
        if (
            not self._extensions
            or prompt is None
            or not prompt.isascii()
            or not (negative is None or negative.isascii())
            or not (seed is None or 0 <= seed <= MAX_SEED)
            or _PLAIN.fullmatch(request_id) is None
        ):
            return None
        try:
            extension = self._extensions.get((_shared(request), negative is None))
        except TypeError:  # a list or an object cannot be looked up
            return None
        return None if extension is None else request_id + extension
