"""The journal of one run: asks what is done already, and records what is done now."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Self

import msgspec

from omni_cli.disk import lies_with_the_disk, reason
from omni_cli.errors import EngineError, OmniGenError, OutputFolderError, StorageFault, StorageLost
from omni_cli.journal.compact import COMPACT_NAME, compact, sync_folder
from omni_cli.journal.folder import held_folder
from omni_cli.journal.ledger import Ledger
from omni_cli.journal.rows import (
    MANIFEST_NAME,
    NOT_A_ROW,
    RowIndex,
    kept_lines,
    open_manifest,
    read_index,
)
from omni_cli.log import logger
from omni_cli.request import Result

_results = msgspec.json.Decoder(Result)


class Journal(Ledger):
    """`manifest.jsonl` of a folder that this process holds. Safe to use from any thread while it is open."""

    def __init__(self, path: Path, file: FileIO, index: RowIndex) -> None:
        """Over `file`, unbuffered and in append mode, whose lines `index` knows; use `Journal.open`."""
        super().__init__(path, file, index)
        self._lock = threading.Lock()
        self._torn: int | None = None

    @classmethod
    @contextmanager
    def open(cls, output_dir: str | Path) -> Iterator[Self]:
        """Hold `output_dir` (made if need be) and its manifest until the block ends.

        Raises OutputFolderError if the folder or the manifest cannot be used, or another run holds the folder.
        """
        with held_folder(output_dir) as folder:
            path = folder / MANIFEST_NAME
            index = _ready(path)
            with open_manifest(path) as file:
                journal = cls(path, file, index)
                try:
                    yield journal
                finally:
                    journal._close()

    def append(self, result: Result) -> None:
        """Record `result`, durable on return; it replaces any earlier row of its id. Its files must be in place already.

        Raises StorageFault if the disk does not take the row, StorageLost if the manifest is not there any more, EngineError if
        anything else keeps it from being written; the manifest then ends where it did before.
        """
        line = msgspec.json.encode(result) + b"\n"
        with self._lock:
            descriptor = self._file.fileno()
            try:
                start = self._end_of_rows(descriptor)
            except OSError as error:
                raise self._failure(error) from error
            try:
                rest = memoryview(line)
                while rest:  # one write, unless something stands in the way: the next one then says what
                    rest = rest[os.write(descriptor, rest) :]
                os.fsync(descriptor)
            except OSError as error:
                # If even this fails, the next row or the next run finds a torn row and drops it.
                self._torn = start
                with suppress(OSError):
                    self._end_of_rows(descriptor)
                raise self._failure(error) from error
            self._index.put(result.id, start, len(line))

    def _end_of_rows(self, descriptor: int) -> int:
        """Where the next row starts, once what an earlier failure has left is cut off. Raises OSError, StorageLost."""
        here = os.fstat(descriptor)
        try:
            same = os.path.samestat(here, self.path.lstat())
        except FileNotFoundError:
            same = False
        if not same:
            raise StorageLost(
                f"{str(self.path)!r} is not there any more: it was deleted or replaced while this run was writing it; "
                "run the same command again"
            )
        if self._torn is None:
            return here.st_size
        os.ftruncate(descriptor, self._torn)
        start, self._torn = self._torn, None
        return start

    def _failure(self, error: OSError) -> OmniGenError:
        text = (
            f"no row can be added to {str(self.path)!r}: {reason(error)}; "
            "make room or repair the folder and run the same command again, it goes on from here"
        )
        return StorageFault(text) if lies_with_the_disk(error, self.path.parent) else EngineError(text)

    def _close(self) -> None:
        """Leave exactly one row per id behind."""
        with self._lock:
            self._file.close()
            _compact_or_warn(self.path, self._index)


def read_rows(manifest: Path) -> Iterator[Result]:
    """The last row of each id in `manifest`, in file order, without holding or changing anything.

    Lines that are not rows of this schema are left out with one warning. Raises OSError if it cannot be read.
    """
    with manifest.open("rb") as file:
        index = read_index(file)
        _warn_unreadable(manifest, index)
        file.seek(0)
        for line in kept_lines(file, index.replaced):
            try:
                yield _results.decode(line)
            except NOT_A_ROW:
                continue


def _ready(path: Path) -> RowIndex:
    """The manifest made, mended and compacted; its index."""
    try:
        path.with_name(COMPACT_NAME).unlink(missing_ok=True)  # of a run that was killed while it compacted
        open_manifest(path).close()
        sync_folder(path.parent)
        index = _indexed(path)
        _warn_unreadable(path, index)
        if index.replaced and _compact_or_warn(path, index):
            index = _indexed(path)
    except OSError as error:
        raise OutputFolderError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    return index


def _indexed(path: Path) -> RowIndex:
    with path.open("rb") as file:
        return read_index(file)


def _compact_or_warn(path: Path, index: RowIndex) -> bool:
    """Compact if there is something to drop. A full disk is no reason to fail: the last row of an id counts either way."""
    if not index.replaced:
        return True
    try:
        compact(path, index.replaced)
    except OSError as error:
        logger.warning("%s keeps %d replaced rows for now: %s", path, len(index.replaced), error.strerror)
        return False
    return True


def _warn_unreadable(path: Path, index: RowIndex) -> None:
    if index.unreadable:
        logger.warning(
            "%d lines of %s are not rows of this version; they are kept, and count as not done", index.unreadable, path
        )
