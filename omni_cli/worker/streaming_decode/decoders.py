"""The VAEs that decode a clip in several calls of their decoder, and how the result of a call becomes final frames.

Each `finish` repeats what the VAE's own `_decode` does after its decoder, as written in diffusers 0.42
(`diffusers.models.autoencoders`). A VAE of another class, a VAE with spatial tiling (its tiles are blended over the
whole clip) and a clip that takes a single decoder call are decoded whole.

    Wan                   one latent frame per call, convolution caches between calls; pixels are unpatched and clamped
    CogVideoX, Mochi      a few latent frames per call, caches between calls (Mochi: only with framewise decoding, and
                          the first frames of the clip are dropped)
    MAGVIT (EasyAnimate)  as CogVideoX, but the first latent frame has a call of its own
    HunyuanVideo, LTX     overlapping tiles in time (LTX: only with framewise decoding), cross-faded; a tile is final
                          once it has been blended with the one before it
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

Finish = Callable[[torch.Tensor], torch.Tensor]
"""Maps the result of one decoder call, [B, C, t, H, W], to the frames that are final now, [B, C, t', H, W], t' >= 0."""


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """The decoder calls of one clip: how many there are, and the function that makes each result final."""

    calls: int
    finish: Finish


def plan_decode(vae: Any, latents: torch.Tensor) -> DecodePlan | None:
    """Return the plan of `vae.decode(latents)`, latents [B, C, T, H, W]; None if it cannot come in pieces, in order."""
    planner = _PLANNERS.get(type(vae).__name__)
    if planner is None or latents.ndim != 5 or vae.use_tiling or (vae.use_slicing and latents.shape[0] > 1):
        return None
    plan = planner(vae, latents.shape[2])
    return plan if plan is not None and plan.calls > 1 else None


def _wan(vae: Any, latent_frames: int) -> DecodePlan:
    patch = vae.config.patch_size
    unpatchify = sys.modules[type(vae).__module__].unpatchify

    def finish(frames: torch.Tensor) -> torch.Tensor:
        if patch is not None:
            frames = unpatchify(frames, patch_size=patch)
        return torch.clamp(frames, min=-1.0, max=1.0)

    return DecodePlan(latent_frames, finish)


def _mochi(vae: Any, latent_frames: int) -> DecodePlan | None:
    if not vae.use_framewise_decoding:
        return None
    to_drop = vae.temporal_compression_ratio - 1 if vae.drop_last_temporal_frames else 0

    def finish(frames: torch.Tensor) -> torch.Tensor:
        nonlocal to_drop
        remaining, to_drop = frames[:, :, to_drop:], 0
        return remaining

    return DecodePlan(math.ceil(latent_frames / vae.num_latent_frames_batch_size), finish)


def _cogvideox(vae: Any, latent_frames: int) -> DecodePlan:
    return DecodePlan(latent_frames // vae.num_latent_frames_batch_size, lambda frames: frames)


def _magvit(vae: Any, latent_frames: int) -> DecodePlan:
    calls = 1 + math.ceil((latent_frames - 1) / vae.num_latent_frames_batch_size)
    return DecodePlan(calls, lambda frames: frames)


def _tiles(vae: Any, latent_frames: int, without_overlap: slice) -> DecodePlan | None:
    """Plan a decode of tiles in time; `without_overlap` selects all frames of a tile but the one that repeats."""
    ratio, stride = vae.temporal_compression_ratio, vae.tile_sample_stride_num_frames
    if not vae.use_framewise_decoding or latent_frames <= vae.tile_sample_min_num_frames // ratio:
        return None
    overlap = vae.tile_sample_min_num_frames - stride
    left = (latent_frames - 1) * ratio + 1
    before: torch.Tensor | None = None

    def finish(tile: torch.Tensor) -> torch.Tensor:
        nonlocal before, left
        if before is None:
            frames = tile[:, :, : stride + 1]
        else:
            tile = vae.blend_t(before, tile[:, :, without_overlap], overlap)
            frames = tile[:, :, :stride]
        before = tile
        frames = frames[:, :, :left]
        left -= frames.shape[2]
        return frames

    return DecodePlan(math.ceil(latent_frames / (stride // ratio)), finish)


_PLANNERS: dict[str, Callable[[Any, int], DecodePlan | None]] = {
    "AutoencoderKLWan": _wan,
    "AutoencoderKLCogVideoX": _cogvideox,
    "AutoencoderKLMochi": _mochi,
    "AutoencoderKLMagvit": _magvit,
    "AutoencoderKLHunyuanVideo": partial(_tiles, without_overlap=slice(1, None)),
    "AutoencoderKLLTXVideo": partial(_tiles, without_overlap=slice(None, -1)),
    "AutoencoderKLLTX2Video": partial(_tiles, without_overlap=slice(None, -1)),
}
