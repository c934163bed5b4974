"""The identity of a request: its id, or for a request without one an id made of its content.

    content ── without id, num_outputs, meta; inputs by their hashes ──> hash ──┐
    prompt ─── first words ──> slug ────────────────────────────────────────────┴─> a-red-circle-3f2b9c1d04e7

What stands around the request does not matter: its line, the flags, the other requests (but for equal ones, which are
numbered in their order, `a-red-circle-3f2b9c1d04e7-2`).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from os.path import normpath
from pathlib import Path

import msgspec
from msgspec import structs

from omni_cli.errors import Diagnostic
from omni_cli.inputs import with_absolute_paths, with_paths
from omni_cli.planner.fingerprint import content_of
from omni_cli.planner.resolve import ENCODE_ERRORS, SourcedRequest
from omni_cli.planner.sanitize import slug
from omni_cli.request import GenerationRequest
from omni_cli.storage.digest import InputDigests

SLUG_BYTES = 40
HASH_DIGITS = 12
"""Hex digits of the hash in an id: among a million requests with one prompt, a clash has a chance of 1 in 600."""

NO_PROMPT = "request"
"""The slug of a request without words."""


@dataclass(frozen=True, slots=True)
class IdentifiedRequest:
    """A request that has an id, and the row it comes from."""

    request: GenerationRequest
    row: SourcedRequest

    @property
    def index(self) -> int:
        """The number of its row, from 0."""
        return self.row.index

    @property
    def line(self) -> int:
        """The line where its row starts, from 1."""
        return self.row.line

    def problem(self, field: str, cause: str, remedy: str = "") -> Diagnostic:
        """Return a diagnostic of `field`, located where the row gives the field."""
        return self.row.problem(field, cause, remedy)


class Identities:
    """The requests without an id in one pass over a list: equal ones are numbered."""

    def __init__(self, base: Path) -> None:
        """Relative input paths start at `base`."""
        self._base = base
        self._digests = InputDigests()
        self._counts: dict[int, int] = {}

    def identified(self, row: SourcedRequest) -> SourcedRequest:
        """Return `row` with an id."""
        if row.request.id is not None:
            return row
        key = self._content_hash(row.request)
        number = self._counts[key] = self._counts.get(key, 0) + 1
        name = slug(row.request.prompt or "", SLUG_BYTES) or NO_PROMPT
        ordinal = f"-{number}" if number > 1 else ""
        request_id = f"{name}-{key:0{HASH_DIGITS}x}{ordinal}"
        return IdentifiedRequest(structs.replace(row.request, id=request_id), row)

    def _content_hash(self, request: GenerationRequest) -> int:
        """Return HASH_DIGITS hex digits of a hash of all that the row says, but for id, num_outputs and meta."""
        absolute = with_absolute_paths(request, self._base)
        hashed = with_paths(absolute, lambda file: content_of(file.path, self._digests))
        model = request.model if request.model is None or "://" in request.model else normpath(request.model)
        content = structs.replace(hashed, id=None, num_outputs=None, model=model, meta=None)
        try:
            encoded = msgspec.json.encode(content, order="deterministic")
        except ENCODE_ERRORS:
            encoded = repr(content).encode("utf-8", "backslashreplace")  # a value that no row holds: a check reports it
        digest = blake2b(encoded, digest_size=HASH_DIGITS // 2, person=b"omni-gen request").digest()
        return int.from_bytes(digest, "big")


def with_ids(rows: Iterable[SourcedRequest | Diagnostic], base: Path) -> Iterator[SourcedRequest | Diagnostic]:
    """Yield `rows` with an id in each request; relative input paths start at `base`."""
    identified: Callable[[SourcedRequest], SourcedRequest] = Identities(base).identified
    for row in rows:
        yield row if isinstance(row, Diagnostic) else identified(row)
