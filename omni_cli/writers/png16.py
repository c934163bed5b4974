"""PNG with 16 bits per channel, which keeps what 8 bits round away of a float32 picture.

libav, which PyAV brings anyway, encodes it: Pillow has no 16-bit RGB, and imageio writes through Pillow.
"""

from typing import BinaryIO

import av
from PIL.PngImagePlugin import putchunk

from omni_cli.writers.codecs import has_pyav_encoder
from omni_cli.writers.image import png_chunks
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.samples import Frames
from omni_cli.writers.video import EncoderError, libav_errors

_LAYOUTS = {1: "gray16be", 3: "rgb48be", 4: "rgba64be"}
_HEADER_BYTES = 33  # the signature and IHDR, which come first (PNG, 5.6)


def write_png16(file: BinaryIO, frames: Frames, compression: int, metadata: Metadata | None) -> None:
    """Encode the only frame of `frames` with levels 0..65535: round(65535 * unit) of floats, or 257 * level of uint8.

    `compression` is zlib's 0..9. Raises EncoderError or OSError.
    """
    if not has_pyav_encoder("png"):
        raise EncoderError("format png16 needs the codec png, which this PyAV lacks; use png")
    (frame,) = frames.iter_uint16()
    context = av.CodecContext.create("png", "w")
    context.width, context.height, context.pix_fmt = frames.width, frames.height, _LAYOUTS[frames.channels]
    context.options = {"compression_level": str(compression), "pred": "sub"}
    context.thread_count = 1
    pixels = frame[..., 0] if frames.channels == 1 else frame
    with libav_errors("png"):
        picture = av.VideoFrame.from_ndarray(pixels, format=context.pix_fmt)
        data = b"".join(bytes(packet) for packet in [*context.encode(picture), *context.encode(None)])
    file.write(data[:_HEADER_BYTES])
    for kind, text, _ in [] if metadata is None else png_chunks(metadata).chunks:
        putchunk(file, kind, text)
    file.write(data[_HEADER_BYTES:])
