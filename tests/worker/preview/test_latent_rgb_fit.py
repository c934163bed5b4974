"""The fit finds the map of a VAE whose latents are a known linear map of the pixels."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from omni_cli.worker.preview.latent_rgb_fit import fit_latent_rgb, scale_latents, synthetic_clips

CPU = torch.device("cpu")


class Config(dict[str, Any]):
    """As the FrozenDict of diffusers: its values are attributes too."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class LinearVae(torch.nn.Module):
    """A VAE whose latents are a known linear map of averaged pixels."""

    def __init__(self, video: bool, **config: Any) -> None:
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Conv3d(3, 4, 1) if video else torch.nn.Conv2d(3, 4, 1))
        self.config = Config(config)
        self.dtype = torch.float32
        self.mix = torch.tensor([[1.0, 0.5, 0.0], [0.0, -1.0, 0.3], [0.2, 0.0, 2.0], [0.0, 0.0, 0.0]])

    def encode(self, pixels: torch.Tensor) -> Any:
        if pixels.ndim == 4:
            means = torch.nn.functional.avg_pool2d(pixels, 8)
        else:
            parts = [pixels[:, :, :1], *pixels[:, :, 1:].chunk(2, dim=2)]
            means = torch.stack([torch.nn.functional.avg_pool2d(part.mean(2), 8) for part in parts], dim=2)
        mixed = torch.einsum("cr,br...->bc...", self.mix, means) + 3
        return SimpleNamespace(latent_dist=SimpleNamespace(mode=lambda: mixed))


@pytest.mark.parametrize("video", [False, True])
def test_the_fit_recovers_the_map_of_a_linear_vae(video: bool) -> None:
    vae = LinearVae(video, scaling_factor=0.5, shift_factor=3.0)
    latent_rgb = fit_latent_rgb(vae, CPU)
    mixed = torch.tensor([[0.4, -0.2, 0.6]])
    latents = torch.cat([(mixed @ vae.mix.T) * 0.5], dim=1)
    levels = latents @ torch.tensor(latent_rgb.weights) + torch.tensor(latent_rgb.bias)
    assert (levels - (mixed + 1) * 127.5).abs().max() < 3


def test_synthetic_clips_are_coloured_moving_and_always_the_same() -> None:
    clips = synthetic_clips(3, 5, 32)
    assert clips.shape == (3, 5, 3, 32, 32)
    assert torch.equal(clips, synthetic_clips(3, 5, 32))
    assert clips.abs().max() <= 1
    assert clips.std() > 0.2
    assert not torch.equal(clips[:, 0], clips[:, 1])
    assert (clips[:, :, 0] - clips[:, :, 1]).std() > 0.1


def test_latents_are_scaled_by_the_constants_of_the_vae_config_or_buffers() -> None:
    raw = torch.full((1, 2, 1, 1), 5.0)

    def scaled(buffers: dict[str, Any] | None = None, **config: Any) -> list[float]:
        vae = torch.nn.Module()
        for name, value in (buffers or {}).items():
            vae.register_buffer(name, torch.tensor(value))
        vae.config = config  # type: ignore[assignment]
        return scale_latents(vae, raw).flatten().tolist()  # type: ignore[no-any-return]

    statistics = {"latents_mean": [1.0, 3.0], "latents_std": [2.0, 4.0]}
    assert scaled() == [5, 5]
    assert scaled(scaling_factor=2.0, shift_factor=1.0) == [8, 8]
    assert scaled(**statistics) == [2, 0.5]
    assert scaled(**statistics, scaling_factor=0.5) == [1, 0.25]
    assert scaled(statistics) == [2, 0.5]
