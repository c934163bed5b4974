"""Check, before anything is rendered, that the disk can hold what a run writes."""

from pathlib import Path

from omni_cli.config import OutputConfig
from omni_cli.errors import OutputFolderError
from omni_cli.log import logger
from omni_cli.text import byte_count, quote
from omni_cli.writers.file_sizes import SpaceEstimate, free_space


def check_space(needed: SpaceEstimate, output: OutputConfig) -> None:
    """Compare `needed` with what is free, and log a warning if it may not suffice.

    Raises OutputFolderError if it cannot suffice, whatever is rendered. A folder whose free space is unknown passes.
    """
    try:
        free = free_space(Path(output.output_dir))
    except OSError as error:
        logger.warning("the free space of %r is unknown: %s", output.output_dir, error.strerror)
        return
    shortage = ""
    if free.bytes < needed.least:
        shortage = f"{needed.files} files take at least {byte_count(needed.least)}, {byte_count(free.bytes)} are free"
    elif free.files is not None and free.files < needed.files:
        shortage = f"it takes {free.files} more files (its inodes are used up), and the run writes {needed.files}"
    place = f"the file system of the output folder {quote(output.output_dir, 200)}"
    if shortage:
        raise OutputFolderError(
            f"{place} cannot hold this run: {shortage}; free some space, choose another --output-dir, render a part"
            " of it with --limit or --shard, or skip this check with --no-disk-check"
        )
    if free.bytes < needed.typical:
        logger.warning(
            "%s may become full: %s are free, %d files of this kind typically take %s;"
            " if it does, free some space and run the same command again",
            place,
            byte_count(free.bytes),
            needed.files,
            byte_count(needed.typical),
        )
