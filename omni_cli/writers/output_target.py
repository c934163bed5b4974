"""Where an output goes and how it is encoded, and the one translation of what can go wrong on the way."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from omni_cli.config import OutputConfig
from omni_cli.errors import StorageError, UsageError, WriteError
from omni_cli.storage.disk_errors import describe_error, find_disk_fault, is_disk_fault
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.video import EncoderError


@dataclass(frozen=True, slots=True)
class OutputTarget:
    """The file or folder `root / name` and its encoding.

    `root`: the output folder, which must exist. `name`: POSIX path relative to it, as the row has it. `format`: a name
    of `formats.FORMATS`. `fps`: frames per second of the pipeline's own frames, needed for a video format with a clock,
    ignored for images.
    """

    root: Path
    name: str
    format: str
    fps: float | None
    options: OutputConfig
    metadata: Metadata | None = None


@contextmanager
def write_errors(root: Path, name: str) -> Iterator[None]:
    """Raise what an encoder or the system raises in the block as a WriteError about the file `name` in `root`.

    A fault of the disk is raised as StorageError.
    """
    try:
        yield
    except WriteError:
        raise
    except (OSError, ValueError, MemoryError, UsageError, EncoderError) as error:
        raise _to_write_error(root, name, error) from error


def _to_write_error(root: Path, name: str, error: Exception) -> WriteError:
    prefix = f"{name!r} was not written: "
    if isinstance(error, EncoderError) and (fault := find_disk_fault(str(error))) is not None:
        return StorageError(f"{prefix}{describe_error(fault, root)}: {error}")
    if isinstance(error, MemoryError):
        return WriteError(f"{prefix}out of memory")
    if not isinstance(error, OSError) or error.errno is None:
        return WriteError(f"{prefix}{str(error) or type(error).__name__}")
    kind = StorageError if is_disk_fault(error, root) else WriteError
    return kind(f"{prefix}{describe_error(error, root)}")
