"""The linear map from a VAE's latents to RGB: from the card, from the cache of earlier fits, or fitted now."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

from omni_cli.models.cards import Card, LatentRgb
from omni_cli.storage.user_cache import cache_key, read_cached, write_cached
from omni_cli.worker.preview.latent_rgb_fit import fit_latent_rgb

FIT_VERSION = 1
"""Version of the fit; a change of it invalidates the cache."""


def latent_rgb_of(
    vae: Any,
    card: Card,
    revision: str | None,
    device: torch.device,
    report: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
) -> LatentRgb:
    """Return the map for the latents of `vae`.

    The card's map holds only for a VAE with its number of channels and without per-channel statistics. Fits are cached
    under the model's `revision`, which determines its VAE; without one nothing is cached. Raises what the VAE raises if
    the fit fails.
    """
    known = card.latent_rgb
    if (
        known is not None
        and vae.config.get("latents_mean") is None
        and len(known.weights) == vae.config.latent_channels
    ):
        return known
    key = cache_key(FIT_VERSION, type(vae).__name__, revision)
    if revision and (cached := read_cached("latent-rgb", key, LatentRgb, environ)) is not None:
        return cached
    report("the colours of previews")
    fitted = fit_latent_rgb(vae, device)
    if revision:
        write_cached("latent-rgb", key, fitted, environ)
    return fitted
