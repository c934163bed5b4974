"""The status of an output folder, read from its manifest and files while a run may be writing both.

manifest ── rows ─────────> done, failed, cancelled ── files looked up ──────────> damaged
folder ──── walk ─────────> files that no row knows ── rows added meanwhile ─────> orphaned
prompts ─── requests ─────> requests without a done row of all their outputs ────> missing

Nothing is locked, written or rendered. Memory holds a hash per row and file, and the paths of orphaned files.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from omni_cli.config import PREVIEW_SUFFIX
from omni_cli.errors import Diagnostic, UsageError
from omni_cli.journal import (
    MANIFEST_NAME,
    ManifestReader,
    file_fault,
    is_manifest_name,
    manifest_folder,
    manifests_version,
    read_manifest,
    read_rows,
)
from omni_cli.planner.checks.unique_names import name_key
from omni_cli.planner.identity import with_ids
from omni_cli.planner.problem_list import ProblemList
from omni_cli.planner.version_1 import is_line_id
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.report import is_report_file
from omni_cli.request import GenerationRequest, Result
from omni_cli.storage.filesystem import FileVersion
from omni_cli.storage.folder_lock import LockOwner, running_owner
from omni_cli.text import quote

STATUS_VERSION = 1


class FolderStatusLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="status"):
    """Base: a line of `status --json`."""


class FailedRequest(FolderStatusLine, frozen=True, kw_only=True, tag="failed"):
    """A request whose last row is a failure; `kind` and `message` are the row's error."""

    id: str
    model: str
    kind: str
    message: str


class CancelledRequest(FolderStatusLine, frozen=True, kw_only=True, tag="cancelled"):
    """A request that was cancelled; a partial video of it was kept."""

    id: str
    model: str


class DamagedFile(FolderStatusLine, frozen=True, kw_only=True, tag="damaged"):
    """A file of a done request that is not what its row says; `fault` says how ("is missing")."""

    id: str
    model: str
    path: str
    fault: str


class MissingRequest(FolderStatusLine, frozen=True, kw_only=True, tag="missing"):
    """A request of the prompt file without a done row of all its outputs; `line` is its place in the file."""

    id: str
    line: int


class OrphanedFile(FolderStatusLine, frozen=True, kw_only=True, tag="orphaned"):
    """A file of the folder that no row knows."""

    path: str
    bytes: int


class ModelCounts(msgspec.Struct, kw_only=True):
    """The number of requests of one model by how they ended. One with a damaged file counts as damaged, not as done."""

    done: int = 0
    failed: int = 0
    cancelled: int = 0
    damaged: int = 0


class StatusTotals(FolderStatusLine, frozen=True, kw_only=True, tag="totals"):
    """All counts, the last line.

    `complete` is True if no request failed, was cancelled, is damaged or is missing. `requests` and `missing` are null
    without a prompt file. `models` maps the model of a row to its counts. `running` is the run that holds the folder.
    """

    version: int = STATUS_VERSION
    output_dir: str
    complete: bool
    done: int
    failed: int
    cancelled: int
    damaged: int
    requests: int | None
    missing: int | None
    orphaned: int
    orphaned_bytes: int
    models: dict[str, ModelCounts]
    running: LockOwner | None


AnyStatusLine = FailedRequest | CancelledRequest | DamagedFile | MissingRequest | OrphanedFile | StatusTotals
OnStatusLine = Callable[[AnyStatusLine], None]


def folder_status(
    outputs: Path, source: PromptSource | None, on_line: OnStatusLine, *, verify_hashes: bool = False
) -> StatusTotals:
    """Report on the folder or manifest `outputs`: what is not done, line by line, then the totals.

    `source` is the prompt file, whose requests are looked up by their ids (see `planner.identity`). Files are compared
    by size, with `verify_hashes` by their bytes. Raises UsageError if there is no manifest and no `source`, or the
    manifest cannot be read, and PromptFileError with every mistake of `source`.
    """
    folder = outputs.parent if is_manifest_name(outputs.name) else outputs
    if source is None:
        manifest_folder(folder)
    status = _FolderStatus(folder, on_line, verify_hashes, running_owner(folder))
    status.read_rows()
    requests = None if source is None else status.find_missing(source)
    status.find_orphans()
    return status.finish(requests)


class _FinishedRequests:
    """The done rows of a manifest, as far as they can be told without a model: by id, and those of 0.1.0 by words."""

    def __init__(self, manifest: ManifestReader) -> None:
        self._manifest = manifest
        self._line_rows = Counter(
            _words(row.request) for row in manifest.rows_of_version_1() if row.status == "done" and is_line_id(row.id)
        )

    def claim(self, request: GenerationRequest) -> bool:
        """Return True if a done row has all outputs of `request`; a row of 0.1.0 without an id is of one request."""
        row = self._manifest.last_row(request.id or "")
        if row is not None and row.status == "done":
            return len(row.files) >= (request.num_outputs or 1)
        words = _words(request)
        if self._line_rows[words] == 0:
            return False
        self._line_rows[words] -= 1
        return True


def _words(request: GenerationRequest) -> int:
    """Return a hash of what a row of 0.1.0 and a request of a prompt file both say."""
    return hash((request.prompt, request.seed))


@dataclass(slots=True)
class _FolderStatus:
    """Reports lines as they are found, and counts them."""

    folder: Path
    on_line: OnStatusLine
    verify_hashes: bool
    running: LockOwner | None
    models: dict[str, ModelCounts] = field(default_factory=dict)
    missing: int = 0
    orphaned: int = 0
    orphaned_bytes: int = 0
    _known: set[str | bytes] = field(default_factory=set)
    _version: tuple[FileVersion, ...] | None = None

    def read_rows(self) -> None:
        """Count the rows of the manifest and report those that are not done or whose files are damaged."""
        self._version = self._manifest_version()
        for row in self._rows():
            self._known.update(name_key(file.path) for file in row.files)
            counts = self.models.setdefault(row.model.id, ModelCounts())
            match row.status:
                case "done":
                    self._check_files(row, counts)
                case "failed":
                    counts.failed += 1
                    kind, message = (row.error.kind, row.error.message) if row.error else ("", "")
                    self.on_line(FailedRequest(id=row.id, model=row.model.id, kind=kind, message=message))
                case "cancelled":
                    counts.cancelled += 1
                    self.on_line(CancelledRequest(id=row.id, model=row.model.id))

    def find_missing(self, source: PromptSource) -> int:
        """Report the requests of `source` with fewer outputs than they ask for; return the number of its requests."""
        count, problems = 0, ProblemList()
        with read_manifest(self.folder) as manifest:
            finished = _FinishedRequests(manifest)
            for row in with_ids(source.rows(), source.base):
                if isinstance(row, Diagnostic):
                    problems.add([row])
                    continue
                count += 1
                if not problems and not finished.claim(row.request):
                    self.missing += 1
                    self.on_line(MissingRequest(id=row.request.id or "", line=row.line))
        problems.raise_if_any()
        return count

    def find_orphans(self) -> None:
        """Report the files that no row knows, not even one that was added since the rows were read."""
        unknown = list(self._unknown_files())
        if unknown and self._manifest_version() != self._version:
            for row in self._rows():
                self._known.update(name_key(file.path) for file in row.files)
        for path, size in unknown:
            if not self._is_known(path):
                self.orphaned += 1
                self.orphaned_bytes += size
                self.on_line(OrphanedFile(path=path, bytes=size))

    def finish(self, requests: int | None) -> StatusTotals:
        """Report and return the totals; `requests` is the number of requests of the prompt file."""
        counts = self.models.values()
        failed, cancelled = sum(model.failed for model in counts), sum(model.cancelled for model in counts)
        damaged = sum(model.damaged for model in counts)
        totals = StatusTotals(
            output_dir=str(self.folder),
            complete=not (failed or cancelled or damaged or self.missing),
            done=sum(model.done for model in counts),
            failed=failed,
            cancelled=cancelled,
            damaged=damaged,
            requests=requests,
            missing=None if requests is None else self.missing,
            orphaned=self.orphaned,
            orphaned_bytes=self.orphaned_bytes,
            models=self.models,
            running=self.running,
        )
        self.on_line(totals)
        return totals

    def _rows(self) -> Iterator[Result]:
        manifest = self.folder / MANIFEST_NAME
        try:
            yield from read_rows(manifest)
        except FileNotFoundError:
            return
        except OSError as error:
            raise UsageError(f"{quote(str(manifest), 200)} cannot be read: {error.strerror or error}") from error

    def _manifest_version(self) -> tuple[FileVersion, ...] | None:
        return manifests_version(self.folder)

    def _check_files(self, row: Result, counts: ModelCounts) -> None:
        is_damaged = False
        for file in row.files:
            fault = file_fault(self.folder, file, verify_hash=self.verify_hashes)
            if fault:
                is_damaged = True
                self.on_line(DamagedFile(id=row.id, model=row.model.id, path=file.path, fault=fault))
        counts.damaged += is_damaged
        counts.done += not is_damaged

    def _unknown_files(self) -> Iterator[tuple[str, int]]:
        """Yield path and size of each file that no row knows and no run is about to record.

        Hidden files, previews, the report and the manifest are left out, and so are files that a running run has placed
        before their row. A folder that a row knows is a folder of frames and is not entered. Links to folders are not
        followed.
        """
        since = None if self.running is None else self.running.started.timestamp()
        for parent, folders, names in os.walk(self.folder):
            prefix = os.path.relpath(parent, self.folder) + "/"
            prefix = "" if prefix == "./" else prefix
            folders[:] = sorted(
                name for name in folders if not name.startswith(".") and not self._is_known(prefix + name)
            )
            for name in sorted(names):
                path = prefix + name
                if name.startswith(".") or is_manifest_name(path) or name.casefold().endswith(PREVIEW_SUFFIX):
                    continue
                if self._is_known(path) or is_report_file(path):
                    continue
                try:
                    status = Path(parent, name).lstat()
                except OSError:
                    continue  # removed or renamed meanwhile
                if since is None or status.st_mtime < since:
                    yield path, status.st_size

    def _is_known(self, path: str) -> bool:
        return name_key(path) in self._known
