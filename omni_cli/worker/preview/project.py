"""Latents to a small picture: find the plane, guess the clean latents, map them to colours. All on the device, nothing waited for."""

from typing import Any

import torch

from omni_cli.models.cards import LatentRgb

MAX_SIDE = 256
"""Pixels of a picture: from larger latents every n-th is taken."""

_SCALES = (8, 16, 32, 64)


class Space:
    """How a scheduler mixes picture and noise, and so what the latents of two steps say of those without noise.

    All deterministic samplers go along a line near the end of which lies the denoiser's own guess: prolonged to no noise at
    all, the last step is that guess, exactly for Euler's method. y is the latents where that line is straight: x itself for flow
    matching (x = (1 - s)·x0 + s·n) and for variance-exploding samplers (x = x0 + s·n), x·sqrt(1 + s²) for the
    variance-preserving ones that keep sigmas (Karras et al. 2022, "Elucidating the Design Space", table 1).
    """

    def __init__(self, scheduler: Any) -> None:
        """Read from the class and configuration of `scheduler`; what is not known is taken as it is."""
        name, config = type(scheduler).__name__, getattr(scheduler, "config", {})
        prediction = str(config.get("prediction_type", ""))
        flow = "FlowMatch" in name or bool(config.get("use_flow_sigmas")) or prediction.startswith("flow")
        self._exploding = not flow and float(getattr(scheduler, "init_noise_sigma", 1.0)) > 1.5
        self._preserving = not flow and not self._exploding
        # These add fresh noise at each step: two of them are on no line.
        noisy = any(word in name for word in ("Ancestral", "SDE", "LCM", "TCD", "DDPM"))
        self._straight = not noisy and not str(config.get("algorithm_type", "")).startswith("sde")

    def clean(self, latents: Any, sigma: Any | None, before: tuple[Any, Any] | None) -> Any:
        """A guess at `latents` without the noise `sigma` that is left in them; `before` is (latents, sigma) a step earlier."""
        if sigma is None:
            return latents
        sigma = _beside(latents, sigma)
        if before is not None and self._straight:
            noise = _beside(latents, before[1])
            then, now = self._line(before[0], noise), self._line(latents, sigma)
            fall = sigma - noise
            slope = (now - then) / torch.where(fall == 0, torch.ones_like(fall), fall)
            return torch.where(fall == 0, now, now - slope * sigma)
        return latents / (1 + sigma**2) ** 0.5 if self._exploding else latents

    def _line(self, latents: Any, sigma: Any) -> Any:
        return latents * (1 + sigma**2) ** 0.5 if self._preserving else latents


def _beside(latents: Any, sigma: Any) -> Any:
    """`sigma` on the device of `latents`, without waiting for it."""
    return torch.as_tensor(sigma, dtype=torch.float32).to(latents.device, non_blocking=True)


def plane(latents: Any, channels: int, height: int | None, width: int | None, frames: int | None) -> Any:
    """`latents` of one or more samples as [B, channels, h, w]: of a clip, the middle frame. Raises ValueError if they are no pictures.

    Taken are [B, C, H, W], [B, C, T, H, W], [B, T, C, H, W], patches in the channels [B, C·p², H, W], and packed patches
    [B, T·H·W, C·p²], whose grid is found from the size of the output in pixels.
    """
    shape = tuple(latents.shape)
    if len(shape) == 5 and shape[1] != channels and shape[2] == channels:
        latents = latents.transpose(1, 2)
    if len(shape) == 3:
        latents = _unpacked(latents, height, width, frames or 1)
    if latents.ndim == 5:
        latents = latents[:, :, latents.shape[2] // 2]
    patch = int((latents.shape[1] / channels) ** 0.5) if latents.ndim == 4 else 0
    if patch < 1 or latents.shape[1] != channels * patch**2:
        raise ValueError(f"latents of shape {list(shape)} are no pictures of {channels} channels")
    return torch.nn.functional.pixel_shuffle(latents, patch) if patch > 1 else latents


def _unpacked(latents: Any, height: int | None, width: int | None, frames: int) -> Any:
    """[B, T·H·W, D] as [B, D, T, H, W]."""
    count = latents.shape[1]
    for scale in _SCALES:
        rows, columns = (height or 0) // scale, (width or 0) // scale
        if not rows * columns or count % (rows * columns):
            continue
        length = count // (rows * columns)
        if length == 1 or (length <= frames and (frames - 1) % (length - 1) == 0):
            return latents.transpose(1, 2).unflatten(2, (length, rows, columns))
    raise ValueError(f"{count} packed latents make no grid for {width}x{height} pixels and {frames} frames")


class Palette:
    """A LatentRgb as tensors on `device`."""

    def __init__(self, colours: LatentRgb, device: Any) -> None:
        """Copied once: a copy to the device at each step would wait for it."""
        self.weights = torch.tensor(colours.weights, dtype=torch.float32, device=device)
        self.bias = torch.tensor(colours.bias, dtype=torch.float32, device=device)

    @property
    def channels(self) -> int:
        """Channels of the latents."""
        return len(self.weights)


def picture(latents: Any, palette: Palette) -> Any:
    """uint8 RGB [h, w, 3] of `latents` [C, h, w], on their device."""
    step = -(-max(latents.shape[1:]) // MAX_SIDE)
    small = latents[:, ::step, ::step].float()
    levels = torch.tensordot(small.permute(1, 2, 0), palette.weights, dims=1) + palette.bias
    return levels.nan_to_num_(0, 255, 0).clamp_(0, 255).round_().to(torch.uint8)
