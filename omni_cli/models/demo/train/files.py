"""Clips through real files and back, so that what is judged is what a user gets."""

import io
from fractions import Fraction

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

Frames = NDArray[np.uint8]


def through_file(frames: Frames) -> Frames:
    """uint8 [T, H, W, 3] as a viewer of the file sees it: PNG for one frame, H.264 at CRF 18 for more."""
    return _through_png(frames) if len(frames) == 1 else _through_h264(frames)


def _through_png(frames: Frames) -> Frames:
    file = io.BytesIO()
    Image.fromarray(frames[0]).save(file, "PNG")
    return np.asarray(Image.open(file).convert("RGB"))[None]


def _through_h264(frames: Frames) -> Frames:
    file = io.BytesIO()
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
