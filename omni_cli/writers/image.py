"""Image encoders: PNG, JPEG, WebP and AVIF by Pillow, the last two animated too. Frames in, bytes into an open file out."""

import io
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from omni_cli.config import OutputConfig
from omni_cli.writers.finalize import Frames
from omni_cli.writers.formats import Format
from omni_cli.writers.metadata import Metadata

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.PngImagePlugin import PngInfo

EXIF_BYTES = 65533
"""Largest EXIF payload of a JPEG: one APP1 segment, whose 16-bit length counts itself."""

_EXIF_FRAME = 256  # bytes left for the headers and directories around the comment
_EXIF_IFD, _USER_COMMENT = 0x8769, 0x9286  # EXIF 2.3, 4.6.3 and 4.6.5


class _Sink(io.RawIOBase):
    """Passes writes on to a file without showing its descriptor.

    Given a descriptor, Pillow writes from C and reports a full disk as "encoder error -2"; written through Python it is
    an OSError with its errno.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)


def write_image(
    file: BinaryIO,
    frames: Frames,
    form: Format,
    options: OutputConfig,
    metadata: Metadata | None,
    fps: float | None = None,
) -> None:
    """Encode `frames` as `form`, which holds their colour model; more than one, WebP or AVIF, as an animation at `fps`.

    PNG is exact. JPEG keeps full chroma (4:4:4) from quality 90 up, 4:2:0 below. WebP is lossy at `quality`, and exact,
    alpha included, at quality 100. AVIF is lossy at `quality`, in 4:4:4 from 90 up.
    """
    image, sink = _image_of(frames), cast(IO[bytes], _Sink(file))
    if form.name == "png":
        chunks = None if metadata is None else png_text(metadata)
        image.save(sink, "png", compress_level=options.png_compression, pnginfo=chunks)
        return
    more: dict[str, Any] = {}
    if metadata is not None:
        more["exif"] = exif_comment(metadata.parameters(EXIF_BYTES - _EXIF_FRAME, "utf-16-be"))
    if len(frames) > 1:
        from omni_cli.writers.animation import durations  # see _image_of

        assert fps is not None
        more |= {"save_all": True, "duration": durations(len(frames), fps)}
    quality, fine = options.quality, options.quality >= 90
    if form.name == "jpeg":
        image.save(sink, "jpeg", quality=quality, subsampling=0 if fine else 2, **more)
    elif form.name == "avif":
        image.save(sink, "avif", quality=quality, subsampling="4:4:4" if fine else "4:2:0", max_threads=1, **more)
    elif quality == 100:
        image.save(sink, "webp", lossless=True, exact=True, quality=50, **more)
    else:
        image.save(sink, "webp", quality=quality, **more)


def exif_comment(text: str) -> bytes:
    """EXIF block whose UserComment is `text`: big-endian, with the UNICODE mark and UTF-16, as other tools write it."""
    from PIL.Image import Exif  # see _image_of

    exif = Exif()
    exif.endian = ">"
    exif.get_ifd(_EXIF_IFD)[_USER_COMMENT] = b"UNICODE\0" + text.encode("utf-16-be")
    return exif.tobytes()


def _image_of(frames: Frames) -> "Image":
    """A Pillow image of `frames`: of one, a view where Pillow can hold one (L, RGBA), else a copy of this frame (RGB)."""
    from PIL import Image  # the heavy libraries of this room are loaded by those who encode

    from omni_cli.writers.animation import MODES, Clip

    if len(frames) > 1:
        return Clip(frames)
    mode = MODES[frames.channels]
    (frame,) = frames
    return Image.frombuffer(mode, (frames.width, frames.height), frame, "raw", mode, 0, 1)


def png_text(metadata: Metadata) -> "PngInfo":
    """The text chunks: `parameters` for other tools, `omni_gen` for this one."""
    from PIL.PngImagePlugin import PngInfo  # see _image_of

    chunks = PngInfo()
    chunks.add_text("parameters", metadata.parameters())
    chunks.add_itxt("omni_gen", metadata.document)
    return chunks
