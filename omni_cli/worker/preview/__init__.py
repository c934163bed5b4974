"""Previews: cheap pictures of latents, which are close enough to a linear map of the picture they stand for.

card's factors, else those of an earlier fit, else a fit ──> LatentRgb ──> sketch: latents ──> uint8 [H, W, 3] on the device
"""

from omni_cli.worker.preview.previewer import Previewer

__all__ = ["Previewer"]
