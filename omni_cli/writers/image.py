"""Images by Pillow: PNG, JPEG, WebP and AVIF, the last two also animated; folders of PNG frames; thumbnails."""

import io
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from omni_cli.config import OutputConfig
from omni_cli.media import Kind
from omni_cli.writers.formats import Format, resolve_format
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.samples import Frames

FRAME_DIGITS = 6
"""Digits of a frame's number in its file name; a longer number makes a longer name, which sorts wrong."""

EXIF_BYTES = 65533
"""Largest EXIF payload of a JPEG: one APP1 segment, whose 16-bit length counts itself."""

_EXIF_OVERHEAD = 256  # bytes for the headers and directories around the comment
_EXIF_IFD, _USER_COMMENT = 0x8769, 0x9286  # EXIF 2.3, 4.6.3 and 4.6.5

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's mode by number of channels."""


class _NoDescriptorFile(io.RawIOBase):
    """A file without `fileno`, so that Pillow writes through Python.

    Given a descriptor, Pillow writes from C and reports a full disk as "encoder error -2" instead of an OSError with
    its errno.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)


class SeekableClip(Image.Image):
    """A clip of two or more frames as an image that becomes another frame on `seek`; one frame in memory.

    Pillow's usual way, a list of pictures, would hold the whole clip. `_mode` and `_size` are what Pillow's handbook
    has the author of an image plugin set ("Writing your own image plugin"); the writers treat this as an opened file.
    """

    def __init__(self, frames: Frames) -> None:
        """Load the first frame."""
        super().__init__()
        self._frames = frames
        self._mode, self._size = _MODES[frames.channels], (frames.width, frames.height)
        self.n_frames, self.is_animated = len(frames), True
        self._restart()

    def seek(self, frame: int) -> None:
        """Load frame number `frame`; going back restarts the iteration. Raises EOFError behind the last frame."""
        if frame >= self.n_frames:
            raise EOFError
        if frame < self._number:
            self._restart()
        while self._number < frame:
            self._load_next()

    def tell(self) -> int:
        """Return the number of the current frame."""
        return self._number

    def _restart(self) -> None:
        self._remaining, self._number = iter(self._frames), -1
        self._load_next()

    def _load_next(self) -> None:
        pixels = next(self._remaining)
        self.im = Image.frombuffer(self.mode, self.size, pixels, "raw", self.mode, 0, 1).im
        self._number += 1


def write_image(
    file: BinaryIO,
    frames: Frames,
    form: Format,
    options: OutputConfig,
    metadata: Metadata | None,
    fps: float | None = None,
) -> None:
    """Encode `frames` as `form`, which holds their colour model; several frames as an animation at `fps`.

    PNG is exact. JPEG keeps full chroma (4:4:4) from quality 90 up, 4:2:0 below. WebP is lossy at `quality`, and exact,
    alpha included, at quality 100. AVIF is lossy at `quality`, in 4:4:4 from 90 up.
    """
    image, sink = _to_pillow(frames), cast(IO[bytes], _NoDescriptorFile(file))
    if form.name == "png":
        chunks = None if metadata is None else png_chunks(metadata)
        image.save(sink, "png", compress_level=options.png_compression, pnginfo=chunks)
        return
    keywords: dict[str, Any] = {}
    if metadata is not None:
        keywords["exif"] = exif_comment(metadata.parameters(EXIF_BYTES - _EXIF_OVERHEAD, "utf-16-be"))
    if len(frames) > 1:
        assert fps is not None
        keywords |= {"save_all": True, "duration": durations(len(frames), fps)}
    quality, fine = options.quality, options.quality >= 90
    if form.name == "jpeg":
        image.save(sink, "jpeg", quality=quality, subsampling=0 if fine else 2, **keywords)
    elif form.name == "avif":
        image.save(sink, "avif", quality=quality, subsampling="4:4:4" if fine else "4:2:0", max_threads=1, **keywords)
    elif quality == 100:
        image.save(sink, "webp", lossless=True, exact=True, quality=50, **keywords)
    else:
        image.save(sink, "webp", quality=quality, **keywords)


def write_frame_folder(folder: Path, frames: Frames, options: OutputConfig, metadata: Metadata | None) -> None:
    """Write each frame as 000000.png, 000001.png, ... into the empty `folder`; the first one carries the metadata."""
    png = resolve_format("png")
    for number, pixels in enumerate(frames):
        frame = Frames(pixels[None], Kind.IMAGE, frames.color)
        with (folder / f"{number:0{FRAME_DIGITS}d}.png").open("xb") as file:
            write_image(file, frame, png, options, metadata if number == 0 else None)


def encode_thumbnail(pixels: bytes, size: tuple[int, int], new_size: tuple[int, int], text: Mapping[str, str]) -> bytes:
    """Scale a picture bicubically and encode it as PNG at zlib level 1, with `text` as its text chunks.

    `pixels`: uint8 [H, W, 3], RGB. `size` and `new_size`: (W, H) in pixels.
    """
    chunks = PngInfo()
    for key, value in text.items():
        chunks.add_text(key, value)
    buffer = io.BytesIO()
    scaled = Image.frombytes("RGB", size, pixels).resize(new_size, Image.Resampling.BICUBIC)
    scaled.save(buffer, "PNG", compress_level=1, pnginfo=chunks)
    return buffer.getvalue()


def png_chunks(metadata: Metadata) -> PngInfo:
    """Return the text chunks: `parameters` for other tools, `omni_gen` for this one."""
    chunks = PngInfo()
    chunks.add_text("parameters", metadata.parameters())
    chunks.add_itxt("omni_gen", metadata.document)
    return chunks


def exif_comment(text: str) -> bytes:
    """Return an EXIF block whose UserComment is `text`: big-endian UTF-16 behind "UNICODE", as other tools write it."""
    exif = Image.Exif()
    exif.endian = ">"
    exif.get_ifd(_EXIF_IFD)[_USER_COMMENT] = b"UNICODE\0" + text.encode("utf-16-be")
    return exif.tobytes()


def durations(count: int, fps: float) -> list[int]:
    """Return whole milliseconds per frame, rounded so that every frame begins within 0.5 ms of its exact time."""
    starts = [round(1000 * number / fps) for number in range(count + 1)]
    return [end - start for start, end in pairwise(starts)]


def _to_pillow(frames: Frames) -> Image.Image:
    """Return a Pillow image of `frames`; a single frame is viewed in mode L or RGBA and copied in mode RGB."""
    if len(frames) > 1:
        return SeekableClip(frames)
    mode = _MODES[frames.channels]
    (frame,) = frames
    return Image.frombuffer(mode, (frames.width, frames.height), frame, "raw", mode, 0, 1)
