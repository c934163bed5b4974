"""PNG with 16 bits of a level: what a float32 picture still has when 8 bits would have rounded it away.

libpng's place is taken by libav's encoder, which PyAV brings anyway: Pillow holds no RGB of 16 bits, imageio writes through Pillow,
and a library more for one format would be one more to keep.
"""

from typing import BinaryIO

from omni_cli.writers.codecs import pyav_has
from omni_cli.writers.finalize import Frames
from omni_cli.writers.image import png_text
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.video import EncoderError

_LAYOUTS = {1: "gray16be", 3: "rgb48be", 4: "rgba64be"}
_HEADER_BYTES = 33  # the signature and IHDR, which come first (PNG, 5.6)


def write_png16(file: BinaryIO, frames: Frames, compression: int, metadata: Metadata | None) -> None:
    """Encode the one frame of `frames`: level = round(65535 · unit), from the floats, or 257 times a uint8 level.

    `compression` is zlib's 0..9. EncoderError or OSError if it cannot be done.
    """
    import av  # 40 MB of libraries: only where this format is written
    from PIL.PngImagePlugin import putchunk

    if not pyav_has("png"):
        raise EncoderError("format png16 needs the codec png, which this PyAV lacks; use png")
    (frame,) = frames.deep()
    context = av.CodecContext.create("png", "w")
    context.width, context.height, context.pix_fmt = frames.width, frames.height, _LAYOUTS[frames.channels]
    context.options = {"compression_level": str(compression), "pred": "sub"}
    context.thread_count = 1
    pixels = frame[..., 0] if frames.channels == 1 else frame
    try:
        packets = [*context.encode(av.VideoFrame.from_ndarray(pixels, format=context.pix_fmt)), *context.encode(None)]
    except av.error.FFmpegError as error:
        raise EncoderError(f"png: {error.strerror or error}") from error
    data = b"".join(bytes(packet) for packet in packets)
    file.write(data[:_HEADER_BYTES])
    for kind, text, _ in [] if metadata is None else png_text(metadata).chunks:
        putchunk(file, kind, text)
    file.write(data[_HEADER_BYTES:])
