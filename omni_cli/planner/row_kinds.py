"""Resolve rows of one kind once: rows of a file mostly differ in nothing but id, texts and seed.

    row ── key ──> kind: the resolved request of its first row, its disk space, whether that row passed all checks

Rows that read files or name their output are never remembered: each is resolved and checked by itself.
"""

import re
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from omni_cli.config import RunConfig
from omni_cli.export.layouts import ID_TEMPLATE, name_template
from omni_cli.inputs import FIELD_KINDS
from omni_cli.models.cards import Card
from omni_cli.planner.models import Models
from omni_cli.planner.resolve import ENCODE_ERRORS, Resolved, SourcedRequest, resolve
from omni_cli.request import MAX_SEED, GenerationRequest
from omni_cli.writers.file_sizes import SpaceEstimate, estimate_files

MAX_KINDS = 1024
"""Kinds that are remembered; rows of any further kind are resolved one by one."""

_fields_of_one_row = attrgetter(*FIELD_KINDS, "output")
_NONE = (None,) * (len(FIELD_KINDS) + 1)

_CLEAN_ID = re.compile(
    r"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|\Z))[a-z0-9_](?:[a-z0-9_.-]{0,98}[a-z0-9_-])?",
    re.IGNORECASE | re.ASCII,
)
"""Ids that `sanitize.clean` leaves as they are."""


@dataclass(slots=True)
class _Kind:
    """`resolved` is the kind's first row. `file_extension` is set once that row has passed the checks."""

    resolved: Resolved
    file_extension: str | None = None
    space: SpaceEstimate | None = None


class RowKinds:
    """The kinds of rows of one run."""

    def __init__(self, config: RunConfig, models: Models, base: Path) -> None:
        """Relative input paths start at `base`."""
        self._config, self._models, self._base = config, models, base
        self._kinds: dict[bytes | None, _Kind] = {}

    def resolve(self, row: SourcedRequest, card: Card) -> Resolved:
        """Return what `resolve` returns for `row`. Raises UsageError and DiagnosticError as it does."""
        kind, request = self._kind(row, card), row.request
        first = kind.resolved
        explicit = structs.replace(first.explicit, id=request.id, **_texts_and_seed(request))
        resolved = structs.replace(first.request, id=request.id, **_texts_and_seed(request))
        return Resolved(explicit, resolved, first.kind, first.form)

    def space(self, row: SourcedRequest, card: Card) -> SpaceEstimate:
        """Return the disk space of the files of `row`. Raises UsageError and DiagnosticError as `resolve` does."""
        kind = self._kind(row, card)
        if kind.space is None:
            kind.space = estimate_files(kind.resolved.request, self._config.output)
        return kind.space

    def mark_passed(self, row: SourcedRequest, resolved: Resolved) -> None:
        """Remember that `row` passed every check but those of its names."""
        request = row.request
        if (
            name_template(self._config.output) == ID_TEMPLATE
            and resolved.request.num_outputs == 1
            and not resolved.form.is_folder
            and request.lora is None
            and request.extra is None
            and request.prompt_weighting is None
            and request.prompt is not None
            and (kind := self._kinds.get(_key(request))) is not None
        ):
            kind.file_extension = resolved.form.extension

    def file_of_passed(self, row: SourcedRequest) -> str | None:
        """Return the file of a row that is known to pass every check but those of its names; None if it is not known.

        A row passes if the first row of its kind did, its texts can be encoded and its seed is in range. Its file is
        its id and an extension if the id is a clean file name.
        """
        request = row.request
        prompt, negative, seed = request.prompt, request.negative_prompt, request.seed
        request_id = request.id
        if (
            not self._kinds
            or prompt is None
            or not prompt.isascii()
            or not (negative is None or negative.isascii())
            or not (seed is None or 0 <= seed <= MAX_SEED)
            or request_id is None
            or _CLEAN_ID.fullmatch(request_id) is None
        ):
            return None
        kind = self._kinds.get(_key(request))
        return None if kind is None or kind.file_extension is None else request_id + kind.file_extension

    def _kind(self, row: SourcedRequest, card: Card) -> _Kind:
        key = _key(row.request)
        kind = self._kinds.get(key)
        if kind is None:
            model = self._models.key(row.request.model)
            kind = _Kind(resolve(row.request, self._config, card, self._base, model))
            if key is not None and len(self._kinds) < MAX_KINDS:
                self._kinds[key] = kind
        return kind


def _key(request: GenerationRequest) -> bytes | None:
    """Return the request as msgpack without id and values of texts and seed; None if no other row can be like it."""
    if _fields_of_one_row(request) != _NONE:
        return None
    common = structs.replace(
        request,
        id=None,
        prompt=None if request.prompt is None else "",
        negative_prompt=None if request.negative_prompt is None else "",
        seed=None if request.seed is None else 0,
    )
    try:
        return msgspec.msgpack.encode(common)
    except ENCODE_ERRORS:
        return None  # a value that cannot be encoded: the checks report it


def _texts_and_seed(request: GenerationRequest) -> dict[str, Any]:
    """Return the texts and the seed that `request` gives itself; flags give the rest, the same to the whole kind."""
    values = {"prompt": request.prompt, "negative_prompt": request.negative_prompt, "seed": request.seed}
    return {name: value for name, value in values.items() if value is not None}
