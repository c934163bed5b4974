"""GIF: one palette for the clip, then each frame dithered to it. Two passes over the frames, one frame at a time.

Pillow's GIF writer keeps every frame until the end; FFmpeg's `palettegen` keeps a histogram. Measured at 416x240
against per-frame palettes (median cut, octree; with and without dither): on drawn scenes it has the best fidelity
(49 dB against 38-48) in the smallest files at 6 ms a frame, and still areas do not flicker; on noise all are alike.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from av import VideoFrame
from av.filter import Graph
from av.filter.context import FilterContext

from omni_cli.writers.samples import Frames
from omni_cli.writers.video import VideoJob, iter_rgb

PALETTE_GEN = "stats_mode=full"
PALETTE_USE = "dither=sierra2_4a"
PALETTE_SIDE = 16
"""Side of the palette, a picture of 16x16 pixels, BGRA."""

_MAGIC = (b"GIF87a", b"GIF89a")
_LOOP = b"!\xff\x0bNETSCAPE2.0"
_LOOP_BYTES = 19
_CHUNK = 1 << 20


def palette_pictures(frames: Frames, job: VideoJob) -> Iterator[VideoFrame]:
    """Yield each frame as PAL8 with the palette of the whole clip."""
    palette = _generate_palette(frames, job)
    graph = Graph()
    graph.threads = 1
    source = _add_buffer(graph, job.width, job.height, "rgb24", job)
    colours = _add_buffer(graph, PALETTE_SIDE, PALETTE_SIDE, "bgra", job)
    use, sink = graph.add("paletteuse", PALETTE_USE), graph.add("buffersink")
    source.link_to(use, 0, 0)
    colours.link_to(use, 0, 1)
    use.link_to(sink)
    graph.configure()
    graph.vpush(palette, at=1)
    graph.vpush(None, at=1)
    for picture in _rgb_pictures(frames, job):
        graph.vpush(picture, at=0)
        yield from _pull_all(graph)
    graph.vpush(None, at=0)
    yield from _pull_all(graph)


def add_comment(target: Path, comment: str) -> None:
    """Insert an ASCII comment extension (GIF89a, section 24) before the first frame, moving the rest in place.

    Raises OSError if `target` is not a GIF.
    """
    data = comment.encode("ascii")
    blocks = b"".join(bytes([len(part)]) + part for part in (data[at : at + 255] for at in range(0, len(data), 255)))
    with target.open("r+b") as file:
        head = file.read(13)
        if head[:6] not in _MAGIC:
            raise OSError(f"not a GIF: {head[:6]!r}")
        offset = 13 + (3 << (head[10] & 7) + 1 if head[10] & 0x80 else 0)
        file.seek(offset)
        if file.read(len(_LOOP)) == _LOOP:
            offset += _LOOP_BYTES
        _insert(file, offset, b"!\xfe" + blocks + b"\0")


def _insert(file: BinaryIO, offset: int, data: bytes) -> None:
    """Insert `data` at `offset`, moving what follows from the end, a chunk at a time."""
    at = file.seek(0, os.SEEK_END)
    while at > offset:
        size = min(_CHUNK, at - offset)
        at -= size
        file.seek(at)
        chunk = file.read(size)
        file.seek(at + len(data))
        file.write(chunk)
    file.seek(offset)
    file.write(data)


def _generate_palette(frames: Frames, job: VideoJob) -> VideoFrame:
    """Return the clip's palette: 255 colours and a transparent one, which the encoder uses for unchanged pixels."""
    graph = Graph()
    graph.threads = 1
    source = _add_buffer(graph, job.width, job.height, "rgb24", job)
    graph.link_nodes(source, graph.add("palettegen", PALETTE_GEN), graph.add("buffersink")).configure()
    palettes: list[VideoFrame] = []
    for picture in _rgb_pictures(frames, job):
        graph.vpush(picture)
        palettes += _pull_all(graph)  # none yet, but pulling makes the filter consume the frame instead of queueing it
    graph.vpush(None)
    palettes += _pull_all(graph)
    palette = palettes[0].reformat(format="bgra")
    palette.pts, palette.time_base = 0, 1 / job.rate
    return palette


def _add_buffer(graph: Graph, width: int, height: int, pixel_format: str, job: VideoJob) -> FilterContext:
    """Add a source of pictures of this size in pixels."""
    # PyAV's stub asks for other types than PyAV takes.
    arguments: dict[str, Any] = {"format": pixel_format, "time_base": 1 / job.rate}
    return graph.add_buffer(width=width, height=height, **arguments)


def _rgb_pictures(frames: Frames, job: VideoJob) -> Iterator[VideoFrame]:
    """Yield each frame as an RGB picture with its time."""
    for index, frame in enumerate(iter_rgb(frames)):
        picture = VideoFrame.from_ndarray(frame, format="rgb24")
        picture.pts, picture.time_base = index, 1 / job.rate
        yield picture


def _pull_all(graph: Graph) -> Iterator[VideoFrame]:
    """Yield the pictures that `graph` has finished."""
    while True:
        try:
            picture = graph.vpull()
        except (BlockingIOError, EOFError):  # PyAV's subclasses: no more for now, or no more at all
            return
        yield picture
