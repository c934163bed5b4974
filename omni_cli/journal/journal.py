"""The journal of one run: reads what is done already, and records what is done now."""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Self

from omni_cli.errors import EngineError, OmniGenError, OutputFolderError, StorageError, StorageUnavailable
from omni_cli.journal.manifest_reader import ManifestReader, decode_row, open_reader
from omni_cli.journal.manifests import manifest_name, manifest_paths, merged_lines, open_manifests
from omni_cli.journal.row_index import (
    DECODE_ERRORS,
    MANIFEST_NAME,
    RowIndex,
    current_lines,
    open_for_append,
    read_index,
)
from omni_cli.log import logger
from omni_cli.request import Result, to_json
from omni_cli.storage.atomic import replace_file
from omni_cli.storage.disk_errors import describe_error, is_disk_fault
from omni_cli.storage.filesystem import is_linked, sync, sync_descriptor
from omni_cli.storage.folder_lock import lock_folder
from omni_cli.storage.shards import Shard


class Journal(ManifestReader):
    """The manifest of a run in a folder that this process has locked. Safe to use from any thread while it is open."""

    def __init__(self, path: Path, file: FileIO, index: RowIndex) -> None:
        """Append to the unbuffered `file`, whose lines are in `index`. Use `Journal.open`."""
        super().__init__(path, file, index)
        self._lock = threading.Lock()
        self._superseded: dict[str, str] = {}
        self._torn_row: int | None = None
        """Offset of a row that was written in part and could not be cut off."""

    @classmethod
    @contextmanager
    def open(cls, output_dir: str | Path, shard: Shard | None = None) -> Iterator[Self]:
        """Lock `output_dir`, created if needed, and open its manifest until the block ends.

        With `shard`, that of the shard: rows in the other manifests are seen as they are now. Without, those of shards
        are merged into `manifest.jsonl` first. Raises OutputFolderError if the folder or the manifest cannot be used,
        or another run has locked the folder.
        """
        with lock_folder(output_dir, shard) as folder, ExitStack() as stack:
            path = folder / manifest_name(shard)
            index = _prepare(path, merge=shard is None)
            others = [stack.enter_context(open_reader(other)) for other in manifest_paths(folder) if other != path]
            with open_for_append(path) as file:
                journal = cls(path, file, index)
                journal.others = others
                try:
                    yield journal
                finally:
                    with journal._lock:
                        file.close()
                        _compact(path, index)

    def append(self, result: Result) -> None:
        """Write the row of `result` durably; it replaces any earlier row of its id. Its files must be in place.

        A result that is not done never replaces a done row whose files are, even in part, in place: then nothing is
        written. A row that `supersede` named is replaced, too.

        Raises StorageError if the disk does not take the row, StorageUnavailable if the manifest was deleted or
        replaced, EngineError for any other failure; the manifest then ends where it did before.
        """
        line = to_json(result) + b"\n"
        with self._lock:
            superseded = self._superseded.get(result.id, result.id)
            if result.status != "done" and any(map(self._is_finished, (result.id, superseded))):
                return
            descriptor = self._file.fileno()
            try:
                start = self._end_of_rows(descriptor)
            except OSError as error:
                raise self._append_error(error) from error
            try:
                rest = memoryview(line)
                while rest:  # one write normally; after a partial one, the next fails with the reason
                    rest = rest[os.write(descriptor, rest) :]
                sync_descriptor(descriptor)
            except OSError as error:
                # If cutting it off fails too, the next row or the next run finds a torn row and drops it.
                self._torn_row = start
                with suppress(OSError):
                    self._end_of_rows(descriptor)
                raise self._append_error(error) from error
            self._index.put(result.id, start, len(line), result.files)
            if superseded != result.id:
                self._index.drop(superseded)

    def supersede(self, old_id: str, request_id: str) -> None:
        """Let the next row of `request_id` replace the row of `old_id`, which is of the same request."""
        self._superseded[request_id] = old_id

    def _is_finished(self, request_id: str) -> bool:
        row = self.last_row(request_id)
        return row is not None and row.status == "done" and self.is_present(row)

    def _end_of_rows(self, descriptor: int) -> int:
        """Return the offset of the next row, after a torn row was cut off. Raises OSError, StorageUnavailable."""
        if not is_linked(descriptor, self.path):
            raise StorageUnavailable(
                f"{str(self.path)!r} is not there any more: it was deleted or replaced while this run was writing it; "
                "run the same command again"
            )
        if self._torn_row is None:
            return os.fstat(descriptor).st_size
        os.ftruncate(descriptor, self._torn_row)
        start, self._torn_row = self._torn_row, None
        return start

    def _append_error(self, error: OSError) -> OmniGenError:
        text = (
            f"no row can be added to {str(self.path)!r}: {describe_error(error)}; "
            "make room or repair the folder and run the same command again, it goes on from here"
        )
        return StorageError(text) if is_disk_fault(error, self.path.parent) else EngineError(text)


def read_rows(manifest: Path) -> Iterator[Result]:
    """Yield the row that counts of each id in `manifest`, in file order, without locking or changing anything.

    Of a `manifest.jsonl`, those of the manifests of shards beside it are read as well, whether or not it is there. Rows
    that a run adds meanwhile are left out. Lines that are not rows of this schema are skipped with one warning. Raises
    OSError if there is none, or one cannot be read.
    """
    paths = manifest_paths(manifest.parent) if manifest.name == MANIFEST_NAME else []
    with ExitStack() as stack:
        manifests = open_manifests(paths or [manifest], stack)
        for file, index in manifests:
            _warn_unreadable(Path(file.name), index)
        for line in merged_lines(manifests):
            try:
                yield decode_row(line)
            except DECODE_ERRORS:
                continue


def _prepare(path: Path, merge: bool) -> RowIndex:
    """Create, repair and compact the manifest, with `merge` together with those of shards; return its index."""
    try:
        open_for_append(path).close()
        sync(path.parent)
        if merge:
            _merge_shards(path)
        index = _index_file(path)
        _warn_unreadable(path, index)
        if _compact(path, index):
            index = _index_file(path)
    except OSError as error:
        raise OutputFolderError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    return index


def _merge_shards(path: Path) -> None:
    """Move the rows of shards' manifests into `path` and remove those manifests.

    A failure, such as a full disk, is only a warning: the rows count where they are.
    """
    shards = [other for other in manifest_paths(path.parent) if other != path]
    if not shards:
        return
    try:
        for shard in shards:
            open_for_append(shard).close()  # repairs its end
        with ExitStack() as stack:
            manifests = open_manifests([path, *shards], stack)
            with replace_file(path) as new:
                new.writelines(merged_lines(manifests))
        for shard in shards:
            shard.unlink()
    except OSError as error:
        logger.warning("the manifests of shards stay beside %s for now: %s", path, error.strerror)


def _index_file(path: Path) -> RowIndex:
    with path.open("rb") as file:
        return read_index(file)


def _compact(path: Path, index: RowIndex) -> bool:
    """Rewrite the manifest without replaced rows; return True if it changed.

    A failure, such as a full disk, is only a warning: the last row of an id counts either way.
    """
    if not index.replaced:
        return False
    try:
        with path.open("rb") as old, replace_file(path) as new:
            new.writelines(current_lines(old, index.replaced))
    except OSError as error:
        logger.warning("%s keeps %d replaced rows for now: %s", path, len(index.replaced), error.strerror)
        return False
    return True


def _warn_unreadable(path: Path, index: RowIndex) -> None:
    if index.unreadable:
        logger.warning(
            "%d lines of %s are not rows of this version; they are kept, and count as not done", index.unreadable, path
        )
