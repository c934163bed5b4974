"""Which VAEs decode in time, and what makes a decoder call's result final frames: what follows the decoder in `_decode`.

Read off diffusers 0.42's classes, all in `diffusers.models.autoencoders`. A class that is not here, spatial tiling (whose tiles
are blended over the whole clip), and a clip that its VAE decodes in one call are decoded whole.

    Wan                  one latent frame a call, convolution caches between calls; then pixels are unpatched and clamped
    CogVideoX, Mochi     some latent frames a call, caches between calls (Mochi: where that is switched on, and the first frames
                         of the clip are dropped)
    MAGVIT (EasyAnimate) as CogVideoX, the first latent frame by itself
    HunyuanVideo, LTX    overlapping tiles in time (LTX: where that is switched on), cross-faded; a tile is final once the
                         one before it has been faded in
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Finish = Callable[[torch.Tensor], torch.Tensor]
"""What one decoder call gave, [B, C, t, H, W] -> the frames that are final now; perhaps none (T = 0)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a clip will come out of the decoder: in `calls` calls, each result made final by `finish`."""

    calls: int
    finish: Finish


def plan_decode(vae: Any, latents: torch.Tensor) -> Plan | None:
    """The plan for `vae.decode(latents)`, latents [B, C, T, H, W]; None if it will not come in pieces in order."""
    planner = _PLANNERS.get(type(vae).__name__)
    if planner is None or latents.ndim != 5 or vae.use_tiling or (vae.use_slicing and latents.shape[0] > 1):
        return None
    plan = planner(vae, latents.shape[2])
    return plan if plan is not None and plan.calls > 1 else None


def _as_it_is(frames: torch.Tensor) -> torch.Tensor:
    return frames


def _wan(vae: Any, latent_frames: int) -> Plan:
    patch = vae.config.patch_size
    unpatchify = sys.modules[type(vae).__module__].unpatchify

    def finish(frames: torch.Tensor) -> torch.Tensor:
        if patch is not None:
            frames = unpatchify(frames, patch_size=patch)
        return torch.clamp(frames, min=-1.0, max=1.0)

    return Plan(latent_frames, finish)


def _cogvideox(vae: Any, latent_frames: int) -> Plan:
    return Plan(latent_frames // vae.num_latent_frames_batch_size, _as_it_is)


def _mochi(vae: Any, latent_frames: int) -> Plan | None:
    if not vae.use_framewise_decoding:
        return None
    to_drop = vae.temporal_compression_ratio - 1 if vae.drop_last_temporal_frames else 0

    def finish(frames: torch.Tensor) -> torch.Tensor:
        nonlocal to_drop
        kept, to_drop = frames[:, :, to_drop:], 0
        return kept

    return Plan(math.ceil(latent_frames / vae.num_latent_frames_batch_size), finish)


def _magvit(vae: Any, latent_frames: int) -> Plan:
    return Plan(1 + math.ceil((latent_frames - 1) / vae.num_latent_frames_batch_size), _as_it_is)


def _tiles(vae: Any, latent_frames: int, cut: Finish) -> Plan | None:
    """Tiles in time; `cut` takes off the frame that every tile but the first has too many."""
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
            tile = vae.blend_t(before, cut(tile), overlap)
            frames = tile[:, :, :stride]
        before = tile
        frames = frames[:, :, :left]
        left -= frames.shape[2]
        return frames

    return Plan(math.ceil(latent_frames / (stride // ratio)), finish)


def _hunyuan(vae: Any, latent_frames: int) -> Plan | None:
    return _tiles(vae, latent_frames, lambda tile: tile[:, :, 1:])


def _ltx(vae: Any, latent_frames: int) -> Plan | None:
    return _tiles(vae, latent_frames, lambda tile: tile[:, :, :-1])


_PLANNERS: dict[str, Callable[[Any, int], Plan | None]] = {
    "AutoencoderKLWan": _wan,
    "AutoencoderKLCogVideoX": _cogvideox,
    "AutoencoderKLMochi": _mochi,
    "AutoencoderKLMagvit": _magvit,
    "AutoencoderKLHunyuanVideo": _hunyuan,
    "AutoencoderKLLTXVideo": _ltx,
    "AutoencoderKLLTX2Video": _ltx,
}
