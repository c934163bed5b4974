"""What of a request is finished according to a manifest, and what remains to be rendered. Reads only."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from io import FileIO
from pathlib import Path

import msgspec
from msgspec import structs

from omni_cli.errors import OutputFolderError, UsageError
from omni_cli.journal.manifests import has_manifest, is_manifest_name, manifest_paths, rank
from omni_cli.journal.row_index import DECODE_ERRORS, MANIFEST_NAME, RowIndex, RowSummary, parse_row, read_index
from omni_cli.request import DERIVED_SEEDS, FinishedOutput, OutputFile, PlannedRequest, Result
from omni_cli.storage.digest import file_digest, folder_digest
from omni_cli.storage.filesystem import open_plain_file
from omni_cli.text import caseless, quote

_row_decoder = msgspec.json.Decoder(Result, strict=False)


def decode_row(line: bytes) -> Result:
    """Return the row `line`; numbers may be floats or text, as other programs rewrite them. Raises DECODE_ERRORS."""
    return _row_decoder.decode(line)


class RequestStatus(StrEnum):
    """The status of a request in an output folder.

    - MORE_OUTPUTS: done with fewer outputs than it has now.
    - FILE_MISSING: done, but a file is gone or is not the recorded one.
    - STOPPED_EARLY: its outputs were decoded before their last step.
    - CHANGED: done with another fingerprint or other seeds, and at least one file is in place.
    - CONFLICT: not done, and a file that it would write is the finished output of another request.
    - OVERWRITE: to be rendered again whatever is there.
    """

    DONE = "done"
    NEW = "new"
    FAILED = "failed"
    MORE_OUTPUTS = "more_outputs"
    FILE_MISSING = "file_missing"
    STOPPED_EARLY = "stopped_early"
    CHANGED = "changed"
    CONFLICT = "conflict"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True)
class Standing:
    """The status of a request, and its outputs that are not finished as a plan; None if there are none to render."""

    status: RequestStatus
    remaining: PlannedRequest | None


class ManifestReader:
    """The rows of a manifest, and of the `others` in its folder, by request id."""

    def __init__(self, path: Path, file: FileIO, index: RowIndex) -> None:
        """Read rows from the unbuffered `file`, whose lines are in `index`; `path` is the manifest's."""
        self.path = path
        self.others: Sequence[ManifestReader] = ()
        self._file = file
        self._index = index

    def __len__(self) -> int:
        """Return the number of requests that have a row."""
        return len(self._index)

    @property
    def is_empty(self) -> bool:
        """Whether no request has a row."""
        return len(self._index) == 0 and all(other.is_empty for other in self.others)

    @property
    def has_version_1(self) -> bool:
        """Whether any row was written by version 0.1.0."""
        return self._index.has_version_1 or any(other.has_version_1 for other in self.others)

    def has_done(self, request_id: str) -> bool:
        """Return True if the last row of `request_id` says done; fingerprint and files are not checked."""
        row = self.last_row(request_id)
        return row is not None and row.status == "done"

    def compare(self, planned: PlannedRequest, *, hashed: bool = True, again: bool = False) -> Standing:
        """Compare `planned` with its last row and the files on disk, output by output.

        A finished output keeps its recorded file name whatever `planned` calls it. Each file of the recorded size is
        hashed (about 1 GB/s, without the GIL), which is exact and cheap compared with rendering; with `hashed=False`,
        the size has to do. With `again`, every output of `planned` remains, in place of the finished one.
        """
        row = self.last_row(planned.id)
        if row is None:
            return Standing(RequestStatus.NEW, planned)
        if row.status != "done":
            return Standing(RequestStatus.FAILED, planned)
        if row.fingerprint.startswith(f"{planned.fingerprint}-stopped-at-"):
            return Standing(RequestStatus.STOPPED_EARLY, planned)
        count = len(row.files)
        if row.fingerprint != planned.fingerprint or other_seeds(planned, row.seeds):
            in_place = any(self._is_intact(file, hashed) for file in row.files)
            return Standing(RequestStatus.CHANGED if in_place else RequestStatus.FILE_MISSING, planned)
        missing = [
            number
            for number in range(len(planned.seeds))
            if again or number >= count or not self._is_intact(row.files[number], hashed)
        ]
        if not missing:
            return Standing(RequestStatus.DONE, None)
        status = RequestStatus.MORE_OUTPUTS if missing[0] >= count else RequestStatus.FILE_MISSING
        return Standing(status, _remaining(planned, row, missing))

    def last_row(self, request_id: str) -> RowSummary | None:
        """Return the row that counts of `request_id`: the last one, of several manifests as `manifests.rank` says."""
        line = self._line(request_id)
        row = None if line is None else parse_row(line)
        return row if row is not None and row.id == request_id else None

    def full_row(self, request_id: str) -> Result | None:
        """Return the same row with all its fields."""
        line = self._line(request_id)
        try:
            return None if line is None else decode_row(line)
        except DECODE_ERRORS:
            return None

    def row_with_file(self, path: str) -> RowSummary | None:
        """Return the row, the one of its id that counts, that names a file like `path`, compared without case."""
        for reader in (self, *self.others):
            byte_range = reader._index.find_by_file(path)
            row = None if byte_range is None else parse_row(reader._read(*byte_range))
            if row is None or reader._index.find(row.id) != byte_range or self.last_row(row.id) != row:
                continue
            if caseless(path) in (caseless(file.path) for file in row.files):
                return row
        return None

    def rows_of_version_1(self) -> Iterator[Result]:
        """Yield the rows of schema version 1 that no later row has replaced, in file order."""
        for reader in (self, *self.others):
            for offset, length in reader._index.version_1_rows():
                if offset not in reader._index.replaced:
                    try:
                        yield decode_row(reader._read(offset, length))
                    except DECODE_ERRORS:
                        continue

    def is_present(self, row: RowSummary) -> bool:
        """Return True if any file of `row` is in place with the recorded bytes."""
        return any(self._is_intact(file) for file in row.files)

    def _line(self, request_id: str) -> bytes | None:
        ranges = ((reader, reader._index.find(request_id)) for reader in (self, *self.others))
        lines = [reader._read(*byte_range) for reader, byte_range in ranges if byte_range is not None]
        return max(lines, key=rank) if len(lines) > 1 else lines[0] if lines else None

    def _is_intact(self, file: OutputFile, hashed: bool = True) -> bool:
        return is_intact(self.path.parent, file, hashed=hashed)

    def _read(self, offset: int, length: int) -> bytes:
        return os.pread(self._file.fileno(), length, offset)


def other_seeds(planned: PlannedRequest, recorded: tuple[int, ...]) -> tuple[int, int] | None:
    """Return the first recorded seed that is not the planned one of its output, and the planned one; None if all are.

    Derived seeds of more than 32 bits are those of outputs that version 0.1.0 rendered: they count as the same.
    """
    is_derived = planned.request.seed is None
    for old, new in zip(recorded, planned.seeds, strict=False):
        if old != new and not (is_derived and old >= DERIVED_SEEDS):
            return old, new
    return None


def _remaining(planned: PlannedRequest, row: RowSummary, missing: list[int]) -> PlannedRequest:
    """Return the plan of the outputs `missing` of `planned`, whose other outputs are those of `row`."""
    files = [file.path for file in row.files]
    return structs.replace(
        planned,
        seeds=tuple((row.seeds[number] if number < len(row.seeds) else planned.seeds[number]) for number in missing),
        files=tuple((files[number] if number < len(files) else planned.files[number]) for number in missing),
        numbers=tuple(missing),
        finished=tuple(
            FinishedOutput(number=number, seed=seed, file=file)
            for number, (seed, file) in enumerate(zip(row.seeds, row.files, strict=False))
            if number not in missing
        ),
    )


@contextmanager
def read_manifest(output_dir: str | Path) -> Iterator[ManifestReader]:
    """Read the manifests of `output_dir` as they are now, without a lock; without any there are no rows.

    Rows that another run adds later are not seen. Raises OutputFolderError if there is one that cannot be read.
    """
    folder = Path(output_dir)
    path = folder / MANIFEST_NAME
    with ExitStack() as stack:
        reader = stack.enter_context(open_reader(path))
        reader.others = [stack.enter_context(open_reader(other)) for other in manifest_paths(folder) if other != path]
        yield reader


@contextmanager
def open_reader(path: Path) -> Iterator[ManifestReader]:
    """Read one manifest as it is now; one that is not there has no rows. Raises OutputFolderError."""
    try:
        file = FileIO(path, opener=open_plain_file)
    except FileNotFoundError:
        file = FileIO(os.devnull)
    except OSError as error:
        raise OutputFolderError(
            f"{str(path)!r} cannot be read: {error.strerror}; move it away or choose another --output-dir"
        ) from error
    with file:
        index = RowIndex()
        if file.name != os.devnull:
            with os.fdopen(os.dup(file.fileno()), "rb") as stream:
                index = read_index(stream)
        yield ManifestReader(path, file, index)


def count_lines(output_dir: str | Path) -> int:
    """Return the number of lines of the manifests in `output_dir`, no less than their rows."""
    count = 1
    for path in manifest_paths(Path(output_dir)):
        with suppress(OSError), FileIO(path, opener=open_plain_file) as file:
            count += sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b"")) + 1
    return count


def manifest_folder(outputs: Path) -> Path:
    """Return the folder of `outputs`, a folder or its manifest. Raises UsageError if there is no manifest."""
    folder = outputs.parent if is_manifest_name(outputs.name) else outputs
    if not has_manifest(folder):
        raise UsageError(f"{quote(str(folder), 200)} has no {MANIFEST_NAME}; name a folder that a run has written")
    return folder


def file_fault(root: Path, file: OutputFile, *, verify_hash: bool = False) -> str:
    """Return how `file` under `root` differs from its row, in words, "" if it does not; by size, or by its bytes."""
    path = root / file.path
    try:
        size = path.stat().st_size
        if path.is_dir():
            size = sum(entry.stat().st_size for entry in path.iterdir())
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if size != file.bytes:
        return f"has {size} bytes, not {file.bytes}"
    return "does not have the bytes that were written" if verify_hash and not is_intact(root, file) else ""


def is_intact(root: Path, file: OutputFile, *, hashed: bool = True) -> bool:
    """Return True if `file` is under `root` with the recorded bytes; False too if it cannot be read.

    With `hashed=False`, a file of the recorded size will do, and a folder that is there.
    """
    path = root / file.path
    try:
        if path.is_dir():
            return not hashed or folder_digest(path) == (file.sha256, file.bytes)
        descriptor = open_plain_file(path, follow_symlinks=True)
        try:
            has_size = os.fstat(descriptor).st_size == file.bytes
            return has_size and (not hashed or file_digest(descriptor)[0] == file.sha256)
        finally:
            os.close(descriptor)
    except OSError:
        return False
