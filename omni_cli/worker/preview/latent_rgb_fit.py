"""Fit the linear map from a VAE's latents to RGB by least squares over synthetic pictures.

synthetic clips ── encode ──> latents as the denoiser sees them ─┐
       └── average over the pixels of each latent ───────────────┴─> ridge regression ──> LatentRgb
"""

from typing import Any

import torch

from omni_cli.models.cards import LatentRgb

MAX_CLIPS = 12
"""Most clips to encode."""

MIN_LATENTS = 2000
"""Latents after which no further clip is encoded: the map has a few dozen unknowns."""

FRAMES = 9
"""Frames per clip of a video VAE: 1 + 8k frames suit every temporal compression ratio up to 8."""

SIDE = 128
"""Height and width in pixels: 16 latents a side for a VAE that scales by 8, 4 for one that scales by 32."""

_RIDGE = 1e-3


def fit_latent_rgb(vae: Any, device: torch.device) -> LatentRgb:
    """Return the map for `vae`, after a few encodes on `device`.

    Raises ValueError if the latents are not finite, and whatever the VAE raises if it cannot encode RGB clips of this
    size.
    """
    is_video = any(isinstance(module, torch.nn.Conv3d) for module in vae.encoder.modules())
    inputs: list[torch.Tensor] = []
    targets: list[torch.Tensor] = []
    with torch.inference_mode():
        # One clip [T, 3, S, S] at a time needs little memory.
        for clip in synthetic_clips(MAX_CLIPS, FRAMES if is_video else 1, SIDE):
            pixels = clip.permute(1, 0, 2, 3)[None] if is_video else clip
            latents = scale_latents(vae, _encode(vae, pixels.to(device, vae.dtype))).float().cpu()
            if not is_video:
                latents = latents[:, :, None]
            inputs.append(latents[0].permute(1, 2, 3, 0).flatten(0, 2))
            targets.append(_mean_levels(clip, *latents.shape[2:]))
            if sum(map(len, inputs)) >= MIN_LATENTS:
                break
    return _ridge_regression(torch.cat(inputs).double(), torch.cat(targets).double())


def synthetic_clips(count: int, frames: int, side: int) -> torch.Tensor:
    """Return float32 [count, frames, 3, side, side] in -1..1: coloured 1/f noise that drifts sideways, the same each
    time.

    1/f is the amplitude spectrum of natural images (Field 1987, "Relations between the statistics of natural images and
    the response properties of cortical cells").
    """
    generator = torch.Generator().manual_seed(20_240_229)
    frequency = torch.fft.fftfreq(side)
    radius = (frequency[:, None] ** 2 + frequency[None] ** 2).sqrt()
    spectrum = torch.where(radius > 0, 1 / radius.clamp(min=1 / side), 0.0)
    noise = torch.randn(count, 3, side, side, generator=generator)
    field = torch.fft.ifft2(torch.fft.fft2(noise) * spectrum).real
    field = field / field.std(dim=(2, 3), keepdim=True)
    mix = torch.randn(count, 3, 3, generator=generator) * 0.4 + torch.eye(3) * 0.3 + 0.3
    base = torch.rand(count, 3, 1, 1, generator=generator) * 1.2 - 0.6
    pictures = (torch.einsum("nij,njhw->nihw", mix, field) * 0.5 + base).clamp(-1, 1)
    return torch.stack([pictures.roll(shift, dims=3) for shift in range(frames)], dim=1)


def scale_latents(vae: Any, latents: torch.Tensor) -> torch.Tensor:
    """Scale the encoder's `latents` [B, C, ...] as pipelines denoise them, by constants of the VAE."""
    config, buffers = vae.config, dict(vae.named_buffers(recurse=False))
    mean, std = (buffers.get(name, config.get(name)) for name in ("latents_mean", "latents_std"))
    scale = config.get("scaling_factor") or 1.0
    if mean is None or std is None:
        return (latents - (config.get("shift_factor") or 0.0)) * scale
    shape = (1, -1, *(1 for _ in latents.shape[2:]))
    mean, std = (
        torch.as_tensor(value, device=latents.device, dtype=latents.dtype).view(shape) for value in (mean, std)
    )
    return (latents - mean) * scale / std


def _encode(vae: Any, pixels: torch.Tensor) -> torch.Tensor:
    """Return the most likely latents of `pixels`, unscaled."""
    encoded = vae.encode(pixels)
    latents: torch.Tensor = encoded.latent_dist.mode() if hasattr(encoded, "latent_dist") else encoded.latent
    return latents


def _mean_levels(clip: torch.Tensor, frames: int, height: int, width: int) -> torch.Tensor:
    """Average `clip` [T, 3, S, S] over the pixels of each latent; return levels 0..255 [frames·height·width, 3].

    A video VAE encodes the first frame by itself and the others in groups of equal length.
    """
    groups = [clip[:1], *(clip[1:].chunk(frames - 1) if frames > 1 else ())]
    means = torch.stack([group.mean(0) for group in groups])
    small = torch.nn.functional.adaptive_avg_pool2d(means, (height, width))
    return ((small + 1) * 127.5).permute(0, 2, 3, 1).flatten(0, 2)


def _ridge_regression(latents: torch.Tensor, levels: torch.Tensor) -> LatentRgb:
    """Solve `levels` [N, 3] ≈ `latents` [N, C] · weights + bias, with an L2 penalty on the weights alone."""
    mean, base = latents.mean(0), levels.mean(0)
    centred = latents - mean
    gram = centred.T @ centred
    gram += _RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    weights = torch.linalg.solve(gram, centred.T @ (levels - base))
    bias = base - mean @ weights
    if not (weights.isfinite().all() and bias.isfinite().all()):
        raise ValueError("the VAE encodes a synthetic picture to latents that are not finite")
    return LatentRgb(
        weights=tuple((float(r), float(g), float(b)) for r, g, b in weights),
        bias=(float(bias[0]), float(bias[1]), float(bias[2])),
    )
