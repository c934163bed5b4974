"""Whether the disk can hold what a run is going to write: asked once, before anything is rendered."""

from collections.abc import Callable, Iterable
from pathlib import Path

from omni_cli.config import OutputConfig, RunConfig
from omni_cli.errors import OutputFolderError
from omni_cli.log import logger
from omni_cli.models.cards import Card
from omni_cli.planner.located import Located
from omni_cli.planner.resolve import id_of, resolve
from omni_cli.prompts.shown import quoted
from omni_cli.request import GenerationRequest
from omni_cli.writers.room import Free, Room, free_in, room_for, row_room

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def room_of(
    rows: Iterable[Located],
    config: RunConfig,
    card_of: Callable[[GenerationRequest], Card | None],
    is_there: Callable[[str], bool] = lambda request_id: False,
) -> Room:
    """Room for the files and manifest rows of `rows`, which checking found no fault with.

    A request of which `is_there` says that its files are in place needs none: they are kept, or replaced by the like.
    Requests of one shape are resolved once. `card_of` tells the card of a request's model; without one, its size is not known.
    """
    room, alike = Room(), dict[object, Room]()
    for row in rows:
        request = row.request
        if is_there(id_of(request, row.index)):
            continue
        card = card_of(request)
        if card is None:
            continue
        shape = (
            request.model,
            request.height,
            request.width,
            request.num_frames,
            request.num_outputs,
            request.format,
            request.interpolate,
        )
        files = alike.get(shape) if request.output is None else None
        if files is None:
            files = room_for(resolve(request, row.index, config, card, Path()).request, config.output)
            if request.output is None:
                alike[shape] = files
        room += files + row_room(request)
    return room


def check_room(room: Room, output: OutputConfig) -> None:
    """Compare `room` with what is free. A warning if it may become too little.

    Raises OutputFolderError if it cannot be enough whatever is rendered. An output folder whose free space nobody can tell is
    left to the run.
    """
    try:
        free = free_in(Path(output.output_dir))
    except OSError as error:
        logger.warning("the free space of %r cannot be told: %s", output.output_dir, error.strerror)
        return
    place = f"the file system of the output folder {quoted(output.output_dir, 200)}"
    if (lacking := _lacking(room, free)) is not None:
        raise OutputFolderError(
            f"{place} cannot hold this run: {lacking}; make room, choose another --output-dir, render a part of it with"
            " --limit or --shard, or go on all the same with --no-disk-check"
        )
    if free.bytes < room.typical:
        logger.warning(
            "%s may become full: %s are free, %d files of this kind typically take %s;"
            " if it does, the same command goes on from there once there is room",
            place,
            shown_bytes(free.bytes),
            room.files,
            shown_bytes(room.typical),
        )


def _lacking(room: Room, free: Free) -> str | None:
    """What there is certainly too little of, with what is needed and what is free; None if it may do."""
    if free.bytes < room.least:
        return f"{room.files} files take at least {shown_bytes(room.least)}, {shown_bytes(free.bytes)} are free"
    if free.files is not None and free.files < room.files:
        return f"{room.files} files are to be made, and it takes {free.files} more (its inodes are used up)"
    return None


def shown_bytes(count: int) -> str:
    """`count` for people: 1.5 GiB."""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{count} bytes"
