"""Previews: small pictures made of latents, which are close to a linear map of the picture that they stand for.

latent_rgb      the map for a VAE: the card's, an earlier fit from the cache, or a new fit (latent_rgb_fit)
latent_images   the latents of a step as a picture, uint8 [H, W, 3], on the device
previewer       does this after every k-th step of a pipeline call
"""

from omni_cli.worker.preview.previewer import Previewer

__all__ = ["Previewer"]
