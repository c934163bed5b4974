"""The linear map from a VAE's latents to colours, by least squares over pictures that this program draws.

drawn clips ── encode ──> latents as the denoiser sees them ─┐
     └─ averaged over the pixels that a latent stands for ───┴─> ridge regression ──> LatentRgb
"""

from typing import Any

import torch

from omni_cli.models.cards import LatentRgb

PICTURES = 12
"""At most: each costs an encode."""

ENOUGH = 2000
"""Latents, where there are at most a few dozen numbers to be found."""

FRAMES = 9
"""One first frame and eight more: 1 + 8k frames are what a video VAE of any temporal scale up to 8 takes."""

SIDE = 128
"""Pixels: sixteen latents a side for a VAE that scales by 8, four for one that scales by 32."""

_RIDGE = 1e-3


def fit(vae: Any, device: torch.device) -> LatentRgb:
    """The map for `vae`; a few encodes on `device`. Raises whatever the VAE does when it cannot encode RGB clips of this size."""
    video = any(isinstance(module, torch.nn.Conv3d) for module in vae.encoder.modules())
    clips = drawn_clips(PICTURES, FRAMES if video else 1, SIDE)
    inputs: list[torch.Tensor] = []
    targets: list[torch.Tensor] = []
    with torch.inference_mode():
        for clip in clips:  # [T, 3, S, S]: one at a time, so that little memory is in use
            pixels = clip.permute(1, 0, 2, 3)[None] if video else clip
            latents = as_denoised(vae, _encode(vae, pixels.to(device, vae.dtype))).float().cpu()
            if not video:
                latents = latents[:, :, None]
            inputs.append(latents[0].permute(1, 2, 3, 0).flatten(0, 2))
            targets.append(_averaged(clip, *latents.shape[2:]))
            if sum(map(len, inputs)) >= ENOUGH:
                break
    return _solve(torch.cat(inputs).double(), torch.cat(targets).double())


def drawn_clips(count: int, frames: int, side: int) -> torch.Tensor:
    """float32 [count, frames, 3, side, side] in -1..1: coloured 1/f noise, as natural pictures have it, that drifts slowly."""
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


def as_denoised(vae: Any, latents: torch.Tensor) -> torch.Tensor:
    """`latents` of the encoder in the scale in which pipelines denoise them, by the constants in the VAE's configuration."""
    config, buffers = vae.config, dict(vae.named_buffers(recurse=False))
    mean, std = (buffers.get(name, config.get(name)) for name in ("latents_mean", "latents_std"))
    scale = config.get("scaling_factor") or 1.0
    if mean is None or std is None:
        return (latents - (config.get("shift_factor") or 0.0)) * scale
    shape = (1, -1, *(1 for _ in latents.shape[2:]))
    low, spread = (
        torch.as_tensor(value, device=latents.device, dtype=latents.dtype).view(shape) for value in (mean, std)
    )
    return (latents - low) * scale / spread


def _encode(vae: Any, pixels: torch.Tensor) -> torch.Tensor:
    """The likeliest latents of `pixels`, as the encoder gives them."""
    encoded = vae.encode(pixels)
    latents: torch.Tensor = encoded.latent_dist.mode() if hasattr(encoded, "latent_dist") else encoded.latent
    return latents


def _averaged(clip: torch.Tensor, frames: int, height: int, width: int) -> torch.Tensor:
    """Levels 0..255 [frames·height·width, 3]: the mean of the pixels that each latent stands for; the first frame stands alone."""
    parts = [clip[:1], *(clip[1:].chunk(frames - 1) if frames > 1 else ())]
    means = torch.stack([part.mean(0) for part in parts])
    small = torch.nn.functional.adaptive_avg_pool2d(means, (height, width))
    return ((small + 1) * 127.5).permute(0, 2, 3, 1).flatten(0, 2)


def _solve(latents: torch.Tensor, levels: torch.Tensor) -> LatentRgb:
    """Ridge regression with a constant term that is not held back."""
    mean, base = latents.mean(0), levels.mean(0)
    centred = latents - mean
    gram = centred.T @ centred
    gram += _RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    weights = torch.linalg.solve(gram, centred.T @ (levels - base))
    bias = base - mean @ weights
    if not (weights.isfinite().all() and bias.isfinite().all()):
        raise ValueError("the VAE's latents of a drawn picture are not finite")
    return LatentRgb(
        weights=tuple((float(r), float(g), float(b)) for r, g, b in weights),
        bias=(float(bias[0]), float(bias[1]), float(bias[2])),
    )
