"""Thumbnails of outputs as files in a folder, named by the content of the output, so that each is made once.

outputs ──> threads: decode, scale, JPEG (WebP where there is transparency) ──> hidden file ──> renamed
"""

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from omni_cli.cores import usable_cores
from omni_cli.log import logger
from omni_cli.report.first_picture import first_picture
from omni_cli.request import OutputFile
from omni_cli.storage.atomic import pending_file

MAX_SIDE = 320
"""Longest side in pixels."""

QUALITY = 80

THUMBNAIL_NAME = re.compile(r"[0-9a-f]{32}\.(?:jpg|webp)")

OnProgress = Callable[[int, int], object]
"""Called with the number of thumbnails that are made, and of those to make."""


@dataclass(frozen=True, slots=True)
class ThumbnailJob:
    """The output at `path`, whose row describes it as `file`."""

    path: Path
    file: OutputFile


def make_thumbnails(folder: Path, jobs: Sequence[ThumbnailJob | None], on_progress: OnProgress) -> list[str]:
    """Write the missing thumbnails of `jobs` into `folder`, which exists; return the name of each, "" without one.

    A file that cannot be decoded has none, whatever is wrong with it. Raises OSError if nothing can be written.
    """
    from PIL import Image  # loaded only where files are shown

    present = {path.name for path in folder.iterdir()}
    stems = [None if job is None else _stem(job.file) for job in jobs]
    missing = {
        stem: job
        for stem, job in zip(stems, jobs, strict=True)
        if stem is not None and job is not None and not _names(stem) & present
    }
    made: dict[str, str] = {}
    with warnings.catch_warnings(), ThreadPoolExecutor(usable_cores(), "thumbnail") as threads:
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # Pillow raises for one past twice its limit
        names = threads.map(lambda entry: _make(folder, *entry), missing.items())
        for number, (stem, name) in enumerate(zip(missing, names, strict=True), 1):
            made[stem] = name
            on_progress(number, len(missing))
    return ["" if stem is None else made.get(stem) or next(iter(_names(stem) & present), "") for stem in stems]


def remove_others(folder: Path, names: Iterable[str]) -> None:
    """Remove the thumbnails in `folder` that are none of `names`: who gets the page gets no picture that it lacks."""
    kept = set(names)
    for path in folder.iterdir():
        if THUMBNAIL_NAME.fullmatch(path.name) and path.name not in kept:
            path.unlink(missing_ok=True)


def _stem(file: OutputFile) -> str:
    """Return a file name for the content that the row records; the row is foreign, so its hash is not taken as one."""
    return blake2b(file.sha256.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _names(stem: str) -> set[str]:
    return {f"{stem}.jpg", f"{stem}.webp"}


def _make(folder: Path, stem: str, job: ThumbnailJob) -> str:
    """Write one thumbnail and return its name, "" if the output has no picture. Raises OSError if it cannot write."""
    if not (job.path.is_file() or job.path.is_dir()):
        return ""  # a pipe or device, which would block
    try:
        picture = first_picture(job.path, MAX_SIDE)
    except Exception as error:  # decoders raise anything for a foreign file; the page shows it without a thumbnail
        logger.info("%s has no thumbnail: %s: %s", job.path, type(error).__name__, error)
        return ""
    if picture is None:
        return ""
    name = f"{stem}.webp" if picture.mode == "RGBA" else f"{stem}.jpg"
    with pending_file(folder, name) as pending:
        with pending.open() as file:
            picture.save(file, "WEBP" if picture.mode == "RGBA" else "JPEG", quality=QUALITY)
        pending.publish()
    return name
