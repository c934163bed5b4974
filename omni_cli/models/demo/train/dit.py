"""Stage two: the transformer and its text encoder, by rectified flow over the autoencoder's latents."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from diffusers.models.transformers.transformer_wan import WanAttention, WanTransformerBlock
from torch import Tensor, nn

from omni_cli.models.demo.train import text
from omni_cli.models.demo.train.latents import BUCKETS, Bucket, Pools
from omni_cli.models.demo.train.optim import Trainer, write_checkpoint

LEARNING_RATE, MATRIX_LEARNING_RATE = 2e-3, 6e-3
SHIFT = 2.5
IMAGES_FIRST = 0.12
"""Share of the time in which images are most of the data: shapes are learned there at a fifth of the cost."""
MINUTES_PER_REPORT, MINUTES_PER_EVALUATION = 1.0, 10.0


def build(channels: int) -> WanTransformer3DModel:
    """A fresh transformer of about 1.8 million parameters over `channels` latent channels."""
    model = WanTransformer3DModel(
        patch_size=(1, 2, 2), num_attention_heads=4, attention_head_dim=32, in_channels=channels,
        out_channels=channels, text_dim=text.WIDTH, freq_dim=64, ffn_dim=512, num_layers=6, cross_attn_norm=True,
    )  # fmt: skip
    nn.init.zeros_(model.proj_out.weight)
    nn.init.zeros_(model.proj_out.bias)
    return model


class DiTStage:
    """What stage two trains, resumes and hands to the evaluation."""

    def __init__(self, vae: AutoencoderKLWan, seed: int) -> None:
        torch.manual_seed(seed)
        self.vae, self.words = vae, text.tokenizer()
        self.encoder = text.encoder(len(self.words))
        self.transformer = build(vae.config.z_dim)
        modules = nn.ModuleDict({"text": self.encoder, "dit": self.transformer})
        self.trainer = Trainer(modules, LEARNING_RATE, MATRIX_LEARNING_RATE, ema=0.998, warmup=100)
        self.rng = random.Random(seed)
        self.pools = Pools(vae, self.rng, torch.Generator().manual_seed(seed))
        self.spent = 0.0

    def train(self, checkpoint: Path, minutes: float, evaluate: Callable[["DiTStage"], None]) -> None:
        """Trains until `minutes` of wall-clock are spent, `self.spent` seconds included; ends on the average."""
        began, now = time.monotonic() - self.spent, time.monotonic()
        reported, evaluated, sums = now, now, [0.0, 0.0]
        while (spent := time.monotonic() - began) < minutes * 60:
            progress = spent / (minutes * 60)
            loss = self.loss(self._pick(progress))
            self.trainer.step(loss, progress)
            sums = [sums[0] + loss.item(), sums[1] + 1]
            if time.monotonic() - reported > MINUTES_PER_REPORT * 60:
                print(f"dit {spent / 60:5.1f} min  step {self.trainer.steps}  loss {sums[0] / sums[1]:.4f}", flush=True)
                self.spent = spent
                self.save(checkpoint)
                reported, sums = time.monotonic(), [0.0, 0.0]
            if time.monotonic() - evaluated > MINUTES_PER_EVALUATION * 60:
                self.trainer.swap_ema()
                evaluate(self)
                self.trainer.swap_ema()
                evaluated = time.monotonic()
        self.spent = spent
        self.save(checkpoint)
        self.trainer.swap_ema()

    def loss(self, bucket: Bucket) -> Tensor:
        """Mean squared error of the velocity on one batch of `bucket`."""
        scenes, clean = self.pools.batch(bucket)
        lengths = [self.rng.randint(*text.MAX_LENGTHS) for _ in scenes]
        u = torch.rand(len(scenes))
        t = SHIFT * u / (1 + (SHIFT - 1) * u)
        noise = torch.randn_like(clean)
        mix = t.view(-1, 1, 1, 1, 1)
        with torch.autocast("cpu", torch.bfloat16):
            words, bias = text.embed(self.encoder, self.words, text.captions(scenes, self.rng), lengths)
            predicted = velocity(self.transformer, (1 - mix) * clean + mix * noise, t * 1000, words, bias)
        return F.mse_loss(predicted.float(), noise - clean)

    def save(self, path: Path) -> None:
        """Writes a checkpoint, whole or not at all."""
        latents = {"mean": self.pools.mean, "std": self.pools.std}
        write_checkpoint(path, {"trainer": self.trainer.state_dict(), "spent": self.spent, **latents})

    def load(self, path: Path) -> None:
        """Goes on from a checkpoint; the pools, being only data, start anew."""
        saved = torch.load(path)
        self.trainer.load_state_dict(saved["trainer"])
        self.spent, self.pools.mean, self.pools.std = saved["spent"], saved["mean"], saved["std"]

    def _pick(self, progress: float) -> Bucket:
        early = progress < IMAGES_FIRST
        return self.rng.choices(BUCKETS, [b.early if early else b.late for b in BUCKETS])[0]


def velocity(model: WanTransformer3DModel, noisy: Tensor, t: Tensor, words: Tensor, bias: Tensor) -> Tensor:
    """What `model(noisy, t, words)` computes, with `bias` added to the logits over `words`; made for training.

    noisy: float32 [B, z, f, h, w]; t: float32 [B] in 0..1000; words: [B, L, 64]; bias: [B, 1, 1, L].
    """
    batch, channels, frames, height, width = noisy.shape
    cos, sin = (f[0, :, 0].float() for f in model.rope(noisy))
    x = noisy.view(batch, channels, frames, height // 2, 2, width // 2, 2)
    x = x.permute(0, 2, 3, 5, 1, 4, 6).reshape(batch, -1, channels * 4)
    x = F.linear(x, model.patch_embedding.weight.flatten(1), model.patch_embedding.bias).float()
    temb, modulation, words, _ = model.condition_embedder(t, words)
    modulation = modulation.float().unflatten(1, (6, -1))
    rotation = cos[:, 0::2], sin[:, 1::2]
    for block in model.blocks:
        x = _compiled_block(block, x, words, modulation, rotation, bias)
    shift, scale = (model.scale_shift_table + temb.float().unsqueeze(1)).chunk(2, dim=1)
    x = model.proj_out(F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift)
    x = x.view(batch, frames, height // 2, width // 2, 2, 2, channels)
    result: Tensor = x.permute(0, 6, 1, 2, 4, 3, 5).reshape(batch, channels, frames, height, width)
    return result


def _block(
    block: WanTransformerBlock,
    x: Tensor,
    words: Tensor,
    modulation: Tensor,
    rotation: tuple[Tensor, Tensor],
    bias: Tensor,
) -> Tensor:
    shift, scale, gate, ff_shift, ff_scale, ff_gate = (block.scale_shift_table + modulation).chunk(6, dim=1)
    h = F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift
    x = x + _attend(block.attn1, h, h, rotation, None) * gate
    h = block.norm2(x)
    x = x + _attend(block.attn2, h, words, None, bias)
    h = F.layer_norm(x, x.shape[-1:]) * (1 + ff_scale) + ff_shift
    result: Tensor = x + block.ffn(h) * ff_gate
    return result


# One graph for all blocks and sizes: twice as fast as op by op, for two minutes of compiling at the start.
_compiled_block = torch.compile(_block, dynamic=True)


def _attend(
    attn: WanAttention, x: Tensor, context: Tensor, rotation: tuple[Tensor, Tensor] | None, bias: Tensor | None
) -> Tensor:
    q, k, v = _rms_norm(attn.norm_q, attn.to_q(x)), _rms_norm(attn.norm_k, attn.to_k(context)), attn.to_v(context)
    # By hand: on a CPU the backward pass of PyTorch's fused attention is eight times as slow at these sizes.
    q, k, v = (y.unflatten(2, (attn.heads, -1)).transpose(1, 2) for y in (q, k, v))
    if rotation is not None:
        q, k = _rotate(q, *rotation), _rotate(k, *rotation)
    logits = (q.to(v.dtype) * q.size(-1) ** -0.5) @ k.to(v.dtype).mT
    if bias is not None:
        logits = logits + bias.to(v.dtype)
    y = logits.softmax(-1).to(v.dtype) @ v
    return attn.to_out[0](y.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def _rms_norm(norm: nn.RMSNorm, x: Tensor) -> Tensor:
    """`norm(x)` in `x`'s type: PyTorch's own widens to its weight's and is slower for it."""
    return F.rms_norm(x, norm.normalized_shape, None, norm.eps) * norm.weight.to(x.dtype)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of adjacent pairs: x [B, heads, N, D], cos and sin [N, D / 2]."""
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)  # type: ignore[no-untyped-call]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
