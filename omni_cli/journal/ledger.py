"""What the rows of a manifest say of a request: done, or why not. Reads only."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from io import FileIO
from pathlib import Path

from omni_cli.digest import file_digest, folder_digest
from omni_cli.errors import OutputFolderError
from omni_cli.journal.rows import MANIFEST_NAME, Entry, RowIndex, read_entry, read_index
from omni_cli.request import OutputFile, PlannedRequest


class Standing(StrEnum):
    """What is there of a request. Only DONE needs no rendering."""

    DONE = "done"
    NEW = "new"
    FAILED = "failed"
    CHANGED = "changed"
    FILE_MISSING = "file_missing"


class Ledger:
    """The rows of a manifest, found by id."""

    def __init__(self, path: Path, file: FileIO, index: RowIndex) -> None:
        """Over `file`, unbuffered, whose lines `index` knows; `path` is the manifest's."""
        self.path = path
        self._file = file
        self._index = index

    def has_done(self, request_id: str) -> bool:
        """True if the last row of `request_id` says done. Nothing is compared with it: enough to guess at the work that is left."""
        entry = self._entry(request_id)
        return entry is not None and entry.status == "done"

    def is_done(self, planned: PlannedRequest) -> bool:
        """True if `planned` needs no rendering: its row says done, with this fingerprint, and its files are what was written."""
        return self.standing(planned) is Standing.DONE

    def standing(self, planned: PlannedRequest) -> Standing:
        """What is there of `planned`. CHANGED: done with another fingerprint or under other names.

        Each file whose size fits is read and hashed (about 1 GB/s, outside the GIL): exact, and cheap beside rendering.
        """
        entry = self._entry(planned.id)
        if entry is None:
            return Standing.NEW
        if entry.status != "done":
            return Standing.FAILED
        if entry.fingerprint != planned.fingerprint or tuple(file.path for file in entry.files) != planned.files:
            return Standing.CHANGED
        intact = all(is_intact(self.path.parent, file) for file in entry.files)
        return Standing.DONE if intact else Standing.FILE_MISSING

    def _entry(self, request_id: str) -> Entry | None:
        """The last row of `request_id`, read back."""
        place = self._index.find(request_id)
        if place is None:
            return None
        offset, length = place
        entry = read_entry(os.pread(self._file.fileno(), length, offset))
        return entry if entry is not None and entry.id == request_id else None


@contextmanager
def read_ledger(output_dir: str | Path) -> Iterator[Ledger]:
    """What `output_dir` holds now, an empty ledger if it is not there. Makes, mends and holds nothing.

    Rows that another run adds meanwhile are not seen. Raises OutputFolderError if there is a manifest that cannot be read.
    """
    path = Path(output_dir) / MANIFEST_NAME
    try:
        file = FileIO(path, opener=_opener)
    except FileNotFoundError:
        file = FileIO(os.devnull)
    except OSError as error:
        raise OutputFolderError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    with file:
        yield Ledger(path, file, _index_of(path, file))


def _opener(name: str, flags: int) -> int:
    # O_NONBLOCK: a FIFO of that name is refused below instead of waiting for its writer for ever.
    return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _index_of(path: Path, file: FileIO) -> RowIndex:
    mode = os.fstat(file.fileno()).st_mode
    if file.name == os.devnull:
        return RowIndex()
    if not stat.S_ISREG(mode):
        raise OutputFolderError(f"{str(path)!r} is not a plain file; move it away or choose another --output-dir")
    with os.fdopen(os.dup(file.fileno()), "rb") as stream:
        return read_index(stream)


def is_intact(root: Path, file: OutputFile) -> bool:
    """True if `file` lies under `root` with the bytes that were recorded. What cannot be read is not intact."""
    path = root / file.path
    try:
        if path.is_dir():
            return folder_digest(path) == (file.sha256, file.bytes)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            # Devices and pipes have size 0, which no output has.
            return os.fstat(descriptor).st_size == file.bytes and file_digest(descriptor)[0] == file.sha256
        finally:
            os.close(descriptor)
    except OSError:
        return False
