"""Frames that leave while their video is still being decoded.

    pipeline ── vae.decode(z) ──> Tap ── the VAE's own loop ──> decoder hook ── final frames ──> CallStream ──> Sink
             <── StandIn: shape of the whole, no memory ──┘
    pipeline ── postprocess_video(stand-in) ──> seam ──> the runner sees that nothing has touched it

decoders   what turns a call of a VAE's decoder into frames that are final, per class
standin    what a pipeline holds in place of the video; becomes the whole decode if a pipeline looks at it
tap        takes the place of `vae.decode` for the duration of a pipeline's call
stream     from a call's frames to those of each request
"""

from omni_cli.worker.chunks.stream import RequestStreams
from omni_cli.worker.chunks.tap import Tap

__all__ = ["RequestStreams", "Tap"]
