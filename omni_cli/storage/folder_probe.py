"""What an output folder can do, tried on a small hidden file before a model is loaded.

create ── write, overwrite, read back ── fsync ── rename ── fsync of the folder ── append, truncate ── remove
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from omni_cli.errors import OutputFolderError
from omni_cli.log import logger
from omni_cli.storage.atomic import create_hidden, hidden_name
from omni_cli.storage.disk_errors import FULL, describe_error
from omni_cli.storage.filesystem import sync, sync_descriptor

ELSEWHERE = "choose an --output-dir on another file system, and copy the files here afterwards"


def probe_folder(folder: Path) -> None:
    """Treat a hidden file of the existing `folder` as outputs and the manifest will be treated.

    Logs a warning if fsync is not supported. Raises OutputFolderError that says what the folder cannot do.
    """
    with _required(folder, "create files"):
        # Locked until the end, so that the sweep of another shard leaves it alone.
        hidden, descriptor = create_hidden(folder / "probe")
    final = hidden_name(folder / "probe")
    try:
        _probe(folder, hidden, descriptor, final)
    finally:
        os.close(descriptor)
        for file in (hidden, final):
            with suppress(OSError):
                file.unlink()


def _probe(folder: Path, hidden: Path, locked: int, final: Path) -> None:
    descriptor = os.dup(locked)
    try:
        with _required(folder, "write files"):
            os.write(descriptor, b"omni-gen")
        with _required(folder, "overwrite parts of a file, as video encoders do"):
            os.pwrite(descriptor, b"O", 0)
        with _required(folder, "read a file while it is being written, to hash it"):
            if os.pread(descriptor, 16, 0) != b"Omni-gen":
                raise OSError(errno.EIO, "what was read is not what was written")
        with _required(folder, "make files durable (fsync)"):
            synced = sync_descriptor(descriptor)
        with _required(folder, "rename files, as every finished file is"):
            hidden.replace(final)
    finally:
        os.close(descriptor)
    with _required(folder, "make new names durable (fsync of a folder)"):
        synced = sync(folder) and synced
    with _required(folder, "append to a file, as manifest.jsonl is written"):
        descriptor = os.open(final, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"\n")
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)
    with _required(folder, "remove files"):
        final.unlink()
    if not synced:
        logger.warning(
            "%r is on a file system without fsync: a power loss may take the newest files;"
            " the same command then renders them again",
            str(folder),
        )


@contextmanager
def _required(folder: Path, operation: str) -> Iterator[None]:
    """Raise OSErrors of the block as OutputFolderErrors that say that the folder cannot do `operation`."""
    try:
        yield
    except OSError as error:
        advice = "make room there, or choose another --output-dir" if error.errno in FULL else ELSEWHERE
        raise unusable_folder(folder, f"cannot {operation}: {describe_error(error)}", advice) from error


def unusable_folder(folder: Path, reason: str, advice: str = "choose another --output-dir") -> OutputFolderError:
    """Return the error for an output folder that cannot be used; `reason` continues its name."""
    return OutputFolderError(f"output folder {str(folder)!r} {reason}; {advice}")
