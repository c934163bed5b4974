"""Turn the latents of a step into a small picture, on the device and without waiting for it.

latents ── image_latents ──> [B, C, h, w] ── X0Estimator ──> without noise ── LatentToRgb ──> uint8 [h, w, 3]
"""

from typing import Any

import torch

from omni_cli.models.cards import LatentRgb

MAX_SIDE = 256
"""Greatest height and width in pixels of a picture; larger latents are subsampled."""

_SCALES = (8, 16, 32, 64)
"""Pixels per packed latent patch, in the order in which they are tried."""


class X0Estimator:
    """Estimates the latents without noise from those of two steps.

    The probability flow ODE moves latents along curves whose tangent points at the denoiser's output (Karras et al.
    2022, "Elucidating the Design Space of Diffusion-Based Generative Models", section 3). In coordinates y in which the
    tangent is linear in the noise level s, the line through two steps, extended to s = 0, is therefore an estimate of
    x0, and exact for Euler's method. y is x for flow matching, x = (1 - s)·x0 + s·n, and for variance-exploding
    schedulers, x = x0 + s·n. It is x·sqrt(1 + s²) for variance-preserving schedulers that keep sigmas (table 1 there).
    """

    def __init__(self, scheduler: Any) -> None:
        """Find out the kind of `scheduler` from its class and config; an unknown one counts as variance-preserving."""
        name, config = type(scheduler).__name__, getattr(scheduler, "config", {})
        prediction = str(config.get("prediction_type", ""))
        flow = "FlowMatch" in name or bool(config.get("use_flow_sigmas")) or prediction.startswith("flow")
        self._is_exploding = not flow and float(getattr(scheduler, "init_noise_sigma", 1.0)) > 1.5
        self._is_preserving = not flow and not self._is_exploding
        # Stochastic samplers add fresh noise at each step: two of their steps are not on one line.
        stochastic = any(word in name for word in ("Ancestral", "SDE", "LCM", "TCD", "DDPM"))
        self._is_ode = not stochastic and not str(config.get("algorithm_type", "")).startswith("sde")

    def estimate(self, latents: Any, sigma: Any | None, previous: tuple[Any, Any] | None) -> Any:
        """Return an estimate of `latents` [...] without their noise `sigma`; `previous` is (latents, sigma) one step
        before.

        A sigma is a number or a tensor of one element; without one the latents are returned unchanged.
        """
        if sigma is None:
            return latents
        sigma = _on_device_of(latents, sigma)
        if previous is not None and self._is_ode:
            previous_sigma = _on_device_of(latents, previous[1])
            y_previous, y = self._linear(previous[0], previous_sigma), self._linear(latents, sigma)
            step = sigma - previous_sigma
            slope = (y - y_previous) / torch.where(step == 0, torch.ones_like(step), step)
            return torch.where(step == 0, y, y - slope * sigma)
        return latents / (1 + sigma**2) ** 0.5 if self._is_exploding else latents

    def _linear(self, latents: Any, sigma: Any) -> Any:
        """Return the coordinates y of `latents`."""
        return latents * (1 + sigma**2) ** 0.5 if self._is_preserving else latents


def _on_device_of(latents: Any, sigma: Any) -> Any:
    """Return `sigma` as float32 on the device of `latents`, without waiting for the device."""
    return torch.as_tensor(sigma, dtype=torch.float32).to(latents.device, non_blocking=True)


def image_latents(latents: Any, channels: int, height: int | None, width: int | None, frames: int | None) -> Any:
    """Return `latents` of B samples as [B, channels, h, w]; of a video, those of the middle frame.

    Accepts [B, C, H, W], [B, C, T, H, W], [B, T, C, H, W], patches in the channels [B, C·p², H, W], and packed patches
    [B, T·H·W, C·p²], whose grid follows from the output's `height` and `width` in pixels and its `frames`.
    Raises ValueError for any other shape.
    """
    shape = tuple(latents.shape)
    if len(shape) == 5 and shape[1] != channels and shape[2] == channels:
        latents = latents.transpose(1, 2)
    if len(shape) == 3:
        latents = _unpack(latents, height, width, frames or 1)
    if latents.ndim == 5:
        latents = latents[:, :, latents.shape[2] // 2]
    patch = int((latents.shape[1] / channels) ** 0.5) if latents.ndim == 4 else 0
    if patch < 1 or latents.shape[1] != channels * patch**2:
        raise ValueError(f"expected latents of pictures with {channels} channels, got shape {list(shape)}")
    return torch.nn.functional.pixel_shuffle(latents, patch) if patch > 1 else latents


def _unpack(latents: Any, height: int | None, width: int | None, frames: int) -> Any:
    """Return packed latents [B, T·H·W, D] as [B, D, T, H, W]."""
    count = latents.shape[1]
    for scale in _SCALES:
        rows, columns = (height or 0) // scale, (width or 0) // scale
        if not rows * columns or count % (rows * columns):
            continue
        length = count // (rows * columns)
        if length == 1 or (length <= frames and (frames - 1) % (length - 1) == 0):
            return latents.transpose(1, 2).unflatten(2, (length, rows, columns))
    raise ValueError(f"{count} packed latents do not form a grid for {width}x{height} pixels and {frames} frames")


class LatentToRgb:
    """A LatentRgb as tensors on a device."""

    def __init__(self, latent_rgb: LatentRgb, device: Any) -> None:
        """Copy the map once: a copy at each step would wait for the device."""
        self._weights = torch.tensor(latent_rgb.weights, dtype=torch.float32, device=device)
        self._bias = torch.tensor(latent_rgb.bias, dtype=torch.float32, device=device)

    @property
    def channels(self) -> int:
        """Channels of the latents."""
        return len(self._weights)

    def __call__(self, latents: Any) -> Any:
        """Return uint8 RGB [h, w, 3] of `latents` [C, H, W], subsampled to at most MAX_SIDE; NaN becomes black."""
        step = -(-max(latents.shape[1:]) // MAX_SIDE)
        small = latents[:, ::step, ::step].float()
        levels = torch.tensordot(small.permute(1, 2, 0), self._weights, dims=1) + self._bias
        return levels.nan_to_num_(0, 255, 0).clamp_(0, 255).round_().to(torch.uint8)
