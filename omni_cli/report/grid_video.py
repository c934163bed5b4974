"""A video of many clips side by side: the sheet's cells play at once."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from omni_cli.config import OutputConfig
from omni_cli.errors import UsageError
from omni_cli.log import logger
from omni_cli.media import ColorModel, Kind
from omni_cli.report.contact_sheet import SheetCanvas, scaled, why_not_shown
from omni_cli.report.first_picture import frame_pictures
from omni_cli.report.sheet_cells import SheetOutput
from omni_cli.writers import ClipWriter, Frames, OutputTarget

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_CLIPS = 100
"""Clips that are decoded side by side: each holds a decoder and its frames."""


def write_grid_video(canvas: SheetCanvas, path: Path, format_name: str) -> int:
    """Write the cells of `canvas` as a video to `path`; return its number of frames.

    It runs at the rate of the fastest clip and lasts as long as the longest one; shorter ones stop at their last frame,
    and pictures stand. Raises UsageError for too many clips or none, and WriteError if it cannot be written.
    """
    places = list(canvas.places())
    rates = [output.file.fps for output, _ in places if output.file is not None and output.file.fps]
    if not rates:
        raise UsageError(f"{path.name}: there is no clip in the sheet; name a .png for pictures")
    if len(rates) > MAX_CLIPS:
        raise UsageError(
            f"{path.name}: a video takes {MAX_CLIPS} clips, not {len(rates)}: choose some with --id, --limit"
        )
    fps = max(rates)
    sheet = canvas.blank()
    playing: list[tuple[tuple[int, int], Iterator[Image], float]] = []
    for output, corner in places:
        if reason := why_not_shown(output):
            canvas.paste_reason(sheet, corner, reason)
        elif output.file is not None:
            playing.append((corner, _frames(output, canvas.style.size), (output.file.fps or fps) / fps))
    writer = ClipWriter(OutputTarget(path.parent, path.name, format_name, fps, OutputConfig()))
    try:
        count = _play(canvas, sheet, playing, writer)
        writer.finish()
    finally:
        writer.discard()
    return count


def _play(
    canvas: SheetCanvas,
    sheet: "Image",
    playing: "list[tuple[tuple[int, int], Iterator[Image], float]]",
    writer: ClipWriter,
) -> int:
    """Write frames until every clip has ended; each clip's frames come `speed` times as often as the video's."""
    import numpy as np

    shown = [0] * len(playing)
    number = 0
    while True:
        is_running = False
        for at, (corner, frames, speed) in enumerate(playing):
            while shown[at] <= number * speed and (picture := next(frames, None)) is not None:
                shown[at] += 1
                canvas.paste(sheet, corner, [picture])
                is_running = True
            is_running |= shown[at] > number * speed
        if not is_running:
            return number
        array = np.ascontiguousarray(np.asarray(sheet))[None]
        writer.write(Frames(array, Kind.VIDEO, ColorModel.RGB))
        number += 1


def _frames(output: SheetOutput, size: int) -> "Iterator[Image]":
    """Yield the scaled frames of a clip or picture up to the first that cannot be decoded."""
    assert output.path is not None
    try:
        for picture in frame_pictures(output.path):
            yield scaled(picture, size)
    except Exception as error:  # decoders raise anything for a foreign file
        logger.warning("%s ends early on the sheet: %s: %s", output.path, type(error).__name__, error)
