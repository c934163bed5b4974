"""Clips through files and back: the detector sees what a user gets."""

import io
from fractions import Fraction

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

Frames = NDArray[np.uint8]


def round_trip(frames: Frames) -> Frames:
    """Encode and decode a clip, uint8 [T, H, W, 3]: PNG for one frame, H.264 at CRF 18 for more."""
    file = io.BytesIO()
    if len(frames) == 1:
        Image.fromarray(frames[0]).save(file, "PNG")
        return np.asarray(Image.open(file).convert("RGB"))[None]
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(8), options={"crf": "18", "preset": "veryfast"})
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    file.seek(0)
    with av.open(file, "r") as container:
        decoded = [frame.to_ndarray(format="rgb24").astype(np.uint8, copy=False) for frame in container.decode(video=0)]
    return np.stack(decoded)
