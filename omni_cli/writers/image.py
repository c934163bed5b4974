"""Image encoders: PNG, JPEG and WebP by Pillow, npy by numpy. One frame in, bytes into an open file out."""

import io
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from omni_cli.config import OutputConfig
from omni_cli.media import Kind
from omni_cli.writers.finalize import Frames
from omni_cli.writers.formats import Format
from omni_cli.writers.metadata import Metadata

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.PngImagePlugin import PngInfo

    from omni_cli.writers.finalize import Frame

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


def write_npy(file: BinaryIO, frames: Frames) -> None:
    """Write uint8 [T, H, W, C] (video) or [H, W, C] (image) as .npy, frame by frame."""
    import numpy as np  # the heavy libraries of this room are loaded by those who encode

    shape = frames.array.shape[1:] if frames.kind is Kind.IMAGE else frames.array.shape
    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    for frame in frames:
        file.write(frame.data)


def write_image(file: BinaryIO, frames: Frames, form: Format, options: OutputConfig, metadata: Metadata | None) -> None:
    """Encode the one frame of `frames` as `form`, which holds its colour model.

    PNG is exact. JPEG keeps full chroma (4:4:4) from quality 90 up, 4:2:0 below. WebP is lossy at `quality`, and exact,
    alpha included, at quality 100.
    """
    (frame,) = frames
    image, sink = _image_of(frame), cast(IO[bytes], _Sink(file))
    if form.name == "png":
        image.save(sink, "png", compress_level=options.png_compression, pnginfo=_png_text(metadata))
        return
    exif = exif_comment(metadata.parameters(EXIF_BYTES - _EXIF_FRAME, "utf-16-be")) if metadata else b""
    if form.name == "jpeg":
        chroma = 0 if options.quality >= 90 else 2
        image.save(sink, "jpeg", quality=options.quality, subsampling=chroma, exif=exif)
    elif options.quality == 100:
        image.save(sink, "webp", lossless=True, exact=True, quality=50, exif=exif)
    else:
        image.save(sink, "webp", quality=options.quality, exif=exif)


def exif_comment(text: str) -> bytes:
    """EXIF block whose UserComment is `text`: big-endian, with the UNICODE mark and UTF-16, as other tools write it."""
    from PIL.Image import Exif  # see write_npy

    exif = Exif()
    exif.endian = ">"
    exif.get_ifd(_EXIF_IFD)[_USER_COMMENT] = b"UNICODE\0" + text.encode("utf-16-be")
    return exif.tobytes()


def _image_of(frame: "Frame") -> "Image":
    """A Pillow image of uint8 [H, W, C]: a view where Pillow can hold one (L, RGBA), else a copy of this one frame (RGB)."""
    from PIL import Image  # see write_npy

    height, width, channels = frame.shape
    mode = {1: "L", 3: "RGB", 4: "RGBA"}[channels]
    return Image.frombuffer(mode, (width, height), frame, "raw", mode, 0, 1)


def _png_text(metadata: Metadata | None) -> "PngInfo | None":
    """The text chunks: `parameters` for other tools, `omni_gen` for this one."""
    from PIL.PngImagePlugin import PngInfo  # see write_npy

    if metadata is None:
        return None
    chunks = PngInfo()
    chunks.add_text("parameters", metadata.parameters())
    chunks.add_itxt("omni_gen", metadata.document)
    return chunks
