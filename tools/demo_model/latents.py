"""Training data of the transformer: latents of drawn clips, in a pool per size that grows during training."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from diffusers import AutoencoderKLWan
from torch import Tensor

from omni_cli.models.demo.scenes import Scene
from tools.demo_model.draw import draw, random_placements
from tools.demo_model.scene_data import training_scenes

CHUNK_PIXELS = 1_200_000

MEASURED_SIZES = ((1, 64, 64, 128), (9, 64, 64, 64), (9, 128, 128, 16), (17, 64, 64, 16))
"""Frames, height, width and number of the clips whose latents give mean and standard deviation."""


@dataclass(frozen=True)
class Bucket:
    """Clips of one size. `early` and `late` are the weights of the bucket during and after the start on images."""

    frames: int
    height: int
    width: int
    batch: int
    early: float
    late: float


BUCKETS = (
    Bucket(1, 64, 64, 96, 6.0, 1.2),
    Bucket(1, 96, 96, 64, 2.0, 0.4),
    Bucket(1, 128, 128, 40, 2.0, 2.0),
    Bucket(1, 64, 128, 64, 0.5, 0.2),
    Bucket(1, 128, 64, 64, 0.5, 0.2),
    Bucket(1, 256, 256, 10, 0.0, 0.2),
    Bucket(5, 64, 64, 64, 0.5, 0.2),
    Bucket(5, 128, 128, 20, 0.0, 0.2),
    Bucket(9, 64, 64, 48, 1.0, 2.8),
    Bucket(9, 96, 96, 24, 0.0, 0.4),
    Bucket(9, 128, 128, 16, 0.5, 4.0),
    Bucket(9, 64, 128, 28, 0.0, 0.25),
    Bucket(9, 128, 64, 28, 0.0, 0.25),
    Bucket(17, 64, 64, 32, 0.0, 2.0),
    Bucket(17, 96, 96, 16, 0.0, 0.15),
    Bucket(17, 128, 128, 10, 0.0, 2.4),
    Bucket(33, 64, 64, 16, 0.0, 0.15),
)


@dataclass
class LatentPools:
    """A pool of normalized latents per bucket, encoded by `vae`; each batch adds a share of new ones."""

    vae: AutoencoderKLWan
    rng: random.Random
    generator: torch.Generator
    fresh_share: float = 0.15
    measured_sizes: Sequence[tuple[int, int, int, int]] = MEASURED_SIZES
    mean: Tensor = field(init=False)
    std: Tensor = field(init=False)
    pools: dict[Bucket, list[tuple[Scene, Tensor]]] = field(init=False)

    def __post_init__(self) -> None:
        """Measure mean and standard deviation of the latents per channel, each float32 [1, z, 1, 1, 1]."""
        samples = [
            self.encode(self.rng.sample(training_scenes(), count), frames, height, width)
            for frames, height, width, count in self.measured_sizes
        ]
        channels = torch.cat([s.transpose(0, 1).flatten(1) for s in samples], 1)
        self.mean, self.std = channels.mean(1).view(1, -1, 1, 1, 1), channels.std(1).view(1, -1, 1, 1, 1)
        self.pools = {bucket: [] for bucket in BUCKETS}

    def batch(self, bucket: Bucket) -> tuple[list[Scene], Tensor]:
        """Return scenes and their normalized latents, float32 [B, z, t, h, w], after adding new ones to the pool."""
        pool = self.pools[bucket]
        fresh = max(4 * bucket.batch - len(pool), round(bucket.batch * self.fresh_share), 1)
        scenes = self.rng.choices(training_scenes(), k=fresh)
        encoded = (self.encode(scenes, bucket.frames, bucket.height, bucket.width) - self.mean) / self.std
        pool.extend(zip(scenes, encoded, strict=True))
        chosen = pool[-fresh:][: bucket.batch]
        chosen += self.rng.sample(pool, bucket.batch - len(chosen))
        return [scene for scene, _ in chosen], torch.stack([latent for _, latent in chosen])

    @torch.no_grad()
    def encode(self, scenes: Sequence[Scene], frames: int, height: int, width: int) -> Tensor:
        """Encode newly drawn clips to latents, float32 [B, z, t, h, w], not normalized."""
        size = max(1, CHUNK_PIXELS // (frames * height * width))
        parts = []
        for i in range(0, len(scenes), size):
            part = scenes[i : i + size]
            clips = draw(part, random_placements(len(part), self.generator), frames, height, width)
            with torch.autocast("cpu", torch.bfloat16):
                parts.append(self.vae.encode(clips * 2 - 1).latent_dist.mode().float())
        return torch.cat(parts)
