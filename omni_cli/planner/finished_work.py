"""Decide what of a planned request is rendered, so that no finished file is replaced unasked.

planned ── in the terms of a row of 0.1.0, if one is of it ── ManifestReader.compare ──> status, what remains
                    │
DONE ───────────────┼── nothing
NEW, FAILED, ... ───┼── what remains, under file names that are free; CONFLICT if one is another request's
CHANGED ────────────┴── refused; with "keep" nothing, with "replace" all of it
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from omni_cli.config import OutputConfig, RunConfig
from omni_cli.inputs import input_files, with_paths
from omni_cli.journal import ManifestReader, RequestStatus, Standing
from omni_cli.journal.manifest_reader import other_seeds
from omni_cli.journal.row_index import RowSummary
from omni_cli.planner.fingerprint import COMPEL
from omni_cli.planner.models import Models
from omni_cli.planner.plan import Planner
from omni_cli.planner.sanitize import split_name
from omni_cli.planner.version_1 import is_line_id, sample_seeds_v1
from omni_cli.request import GenerationRequest, ModelInfo, PlannedRequest, Result
from omni_cli.text import caseless, quote

_NAMES = frozenset({"id", "output", "num_outputs", "seed", "model", "meta"})
"""Fields of a request that no change of its pixels shows in, or that are compared by themselves."""

_ABSENT = "none"


@dataclass(frozen=True, slots=True)
class Decision:
    """The status of a request, and what is to be rendered of it; None if nothing is.

    `details` say what has changed, or which file is whose. A `refused` request differs from finished work in its place,
    and nothing says what to do about it.
    """

    status: RequestStatus
    remaining: PlannedRequest | None
    details: tuple[str, ...] = ()
    refused: bool = False


class FinishedWork:
    """The finished requests of an output folder, as one run sees them."""

    def __init__(self, manifest: ManifestReader, config: RunConfig, models: Models, planner: Planner) -> None:
        """Compare plans of `planner` with the rows of `manifest`; an engine has reported `models`."""
        self._manifest = manifest
        self._root = manifest.path.parent
        self._output: OutputConfig = config.output
        self._base_seed = config.seed
        self._models = models
        self._planner = planner
        self._line_rows: dict[bytes, list[Result]] | None = None
        self.superseded: dict[str, str] = {}
        """Id of a request -> id of the row of 0.1.0 that is of the same request."""

    def decide(self, planned: PlannedRequest, *, hashed: bool = True, again: bool = False) -> Decision:
        """Return what is to be rendered of `planned`; with `hashed=False`, recorded files are judged by their size.

        With `again`, finished outputs of this very request are rendered, too.
        """
        if self._output.overwrite:
            return Decision(RequestStatus.OVERWRITE, planned)
        if self._manifest.is_empty:
            return Decision(RequestStatus.NEW, self._with_free_names(planned) if hashed else planned)
        standing = self._compare(planned, hashed, again)
        remaining = standing.remaining
        if standing.status is RequestStatus.CHANGED and self._output.changed != "replace":
            refused = self._output.changed == "refuse"
            return Decision(standing.status, None, tuple(self._changes(planned)), refused)
        if remaining is None:
            return Decision(standing.status, None)
        if conflicts := tuple(self._conflicts(remaining)):
            return Decision(RequestStatus.CONFLICT, None, conflicts, self._output.changed != "keep")
        details = tuple(self._changes(planned)) if standing.status is RequestStatus.CHANGED else ()
        return Decision(standing.status, self._with_free_names(remaining) if hashed else remaining, details)

    def _compare(self, planned: PlannedRequest, hashed: bool, again: bool) -> Standing:
        row = self._row_of_version_1(planned) if self._manifest.has_version_1 else None
        if row is None:
            return self._manifest.compare(planned, hashed=hashed, again=again)
        count = len(row.seeds)
        in_old_terms = structs.replace(
            planned,
            request=structs.replace(planned.request, id=row.id),
            fingerprint=row.fingerprint,
            seeds=row.seeds[: len(planned.seeds)] + planned.seeds[count:],
        )
        standing = self._manifest.compare(in_old_terms, hashed=hashed, again=again)
        if standing.remaining is None:
            return standing
        remaining = structs.replace(standing.remaining, request=planned.request, fingerprint=planned.fingerprint)
        return Standing(standing.status, remaining)

    def _row_of_version_1(self, planned: PlannedRequest) -> RowSummary | None:
        """Return the row of 0.1.0 that is of the same request as `planned`: that of its id, or one without an id."""
        row = self._manifest.last_row(planned.id)
        if row is None and (old_id := self._superseded_id(planned)):
            row = self._manifest.last_row(old_id)
        return row if row is not None and self._is_same(planned, row) else None

    def _superseded_id(self, planned: PlannedRequest) -> str:
        """Return the id of a row without an id of its own whose request equals `planned`; each is of one request."""
        if planned.id not in self.superseded:
            if self._line_rows is None:
                self._line_rows = {}
                for row in self._manifest.rows_of_version_1():
                    if row.status == "done" and is_line_id(row.id):
                        self._line_rows.setdefault(_content_key(row.request), []).append(row)
            rows = self._line_rows.get(_content_key(planned.request), [])
            same = next((row for row in rows if self._is_same(planned, row)), None)
            if same is not None:
                rows.remove(same)
                self.superseded[planned.id] = same.id
        return self.superseded.get(planned.id, "")

    def _is_same(self, planned: PlannedRequest, row: RowSummary | Result) -> bool:
        """Return True if the `row` of 0.1.0 is of the same request with the same base seed."""
        if row.schema_version != 1 or row.status != "done":
            return False
        if row.seeds != sample_seeds_v1(planned.request.seed, len(row.seeds), self._base_seed, row.id):
            return False
        if row.fingerprint == self._planner.fingerprint_v1(planned, row.seeds):
            return True
        # 0.1.0 hashed the name of the model as well: the same content may have been spelled otherwise.
        recorded, info = self._manifest.full_row(row.id), self._models.info_of(planned.request)
        if recorded is None or info.revision is None or recorded.model != structs.replace(info, id=recorded.model.id):
            return False
        return row.fingerprint == self._planner.fingerprint_v1(planned, row.seeds, recorded.model.id)

    def _conflicts(self, remaining: PlannedRequest) -> Iterator[str]:
        """Yield which files of `remaining` are finished outputs of other requests."""
        own = (remaining.id, self.superseded.get(remaining.id))
        for path in remaining.files:
            row = self._manifest.row_with_file(path)
            if row is None or row.id in own or row.status != "done":
                continue
            recorded = (file.path for file in row.files if caseless(file.path) == caseless(path))
            if any(os.path.lexists(self._root / name) for name in recorded):
                yield f"its file {quote(path, 200)} is the finished output of {quote(row.id)}"

    def _with_free_names(self, remaining: PlannedRequest) -> PlannedRequest:
        """Return `remaining` with another name for each file that is on disk and that no row knows.

        Such a file is somebody else's, or was placed by a run that was killed before it wrote the row; one that says of
        itself that it is of this very sample keeps its name, and will be replaced.
        """
        files = tuple(self._free_name(remaining, position) for position in range(len(remaining.files)))
        if files == remaining.files:
            return remaining
        notes = tuple(
            f"{path} was there already, and no row knows it: this is {free}"
            for path, free in zip(remaining.files, files, strict=True)
            if free != path
        )
        return structs.replace(remaining, files=files, notes=notes)

    def _free_name(self, remaining: PlannedRequest, position: int) -> str:
        path, seed = remaining.files[position], remaining.seeds[position]
        if not self._is_foreign(path, remaining.fingerprint, seed):
            return path
        stem, extension = split_name(path)
        mark = blake2b(f"{remaining.fingerprint}{seed}".encode(), digest_size=4).hexdigest()
        number, free = 1, f"{stem}~{mark}{extension}"
        while self._is_foreign(free, remaining.fingerprint, seed):
            number += 1
            free = f"{stem}~{mark}-{number}{extension}"
        return free

    def _is_foreign(self, path: str, fingerprint: str, seed: int) -> bool:
        """Return True if `path` is on disk, in no row, and does not carry this fingerprint and seed."""
        if not os.path.lexists(self._root / path) or self._manifest.row_with_file(path) is not None:
            return False
        return not _carries(self._root / path, fingerprint, seed)

    def _changes(self, planned: PlannedRequest) -> Iterator[str]:
        """Yield what differs between `planned` and the row of its id, field by field."""
        row = self._manifest.full_row(planned.id)
        if row is None:
            return
        before = len(details := list(self._field_changes(planned, row)))
        yield from details
        if row.schema_version == 1:
            derived = sample_seeds_v1(planned.request.seed, len(row.seeds), self._base_seed, row.id)
            seeds = next(((old, new) for old, new in zip(row.seeds, derived, strict=True) if old != new), None)
        else:
            seeds = other_seeds(planned, row.seeds)
        if seeds is not None:
            yield f"seed: {seeds[0]} → {seeds[1]}"
        elif not before:
            has_inputs = bool(input_files(planned.request))
            yield "the content of an input file" if has_inputs else "a setting that the row does not record"

    def _field_changes(self, planned: PlannedRequest, row: Result) -> Iterator[str]:
        request, info = planned.request, self._models.info_of(planned.request)
        made, recorded = self._models.provenance_of(request, self._output), row.made
        pairs: list[tuple[str, Any, Any]] = [
            (name, getattr(row.request, name), getattr(request, name))
            for name in GenerationRequest.__struct_fields__
            if name not in _NAMES
        ]
        is_same_content = info.revision is not None and info.revision == row.model.revision
        pairs += [
            (f"model {name}", getattr(row.model, name), getattr(info, name))
            for name in ModelInfo.__struct_fields__
            if not (name == "id" and is_same_content)
        ]
        if recorded is not None:
            for kind in ("tuning", "encoding"):
                old, new = getattr(recorded, kind), getattr(made, kind)
                pairs += [(name, old.get(name), new.get(name)) for name in sorted({*old, *new})]
            majors = ({name: text.split(".")[0] for name, text in one.versions.items()} for one in (recorded, made))
            old, new = majors
            pairs += [(f"version of {name}", old.get(name), new[name]) for name in sorted(new) if name in _COMPUTING]
        for name, old, new in pairs:
            if old != new:
                yield f"{name}: {_shown(old)} → {_shown(new)}"


_COMPUTING = frozenset({"torch", "diffusers", "transformers", COMPEL})


def _shown(value: Any) -> str:
    match value:
        case None:
            return _ABSENT
        case str():
            return quote(value)
        case int() | float():
            return f"{value:g}" if isinstance(value, float) else str(value)
        case _:
            return quote(msgspec.json.encode(value).decode())


def _content_key(request: GenerationRequest) -> bytes:
    """Return a hash of a resolved request without its names, its seeds' number and the paths of its inputs."""
    nameless = structs.replace(
        with_paths(request, lambda file: ""), id=None, output=None, num_outputs=None, model=None, meta=None
    )
    return blake2b(msgspec.json.encode(nameless, order="deterministic"), digest_size=16).digest()


def _carries(path: Path, fingerprint: str, seed: int) -> bool:
    """Return True if the metadata in the file at `path` has this fingerprint and seed."""
    # Imported here: only a file in the way is read.
    from omni_cli.writers.readback import read_document

    try:
        document = read_document(path)
    except Exception:  # boundary: the file is not ours, and may be anything
        return False
    if not isinstance(document, dict) or document.get("fingerprint") != fingerprint:
        return False
    request = document.get("request")
    return isinstance(request, dict) and str(request.get("seed")) == str(seed)
