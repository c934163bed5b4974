"""Stage two: training of transformer and text encoder, by rectified flow over the autoencoder's latents."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from diffusers.models.transformers.transformer_wan import WanAttention, WanTransformerBlock
from torch import Tensor, nn

from tools.demo_model import text
from tools.demo_model.latents import BUCKETS, Bucket, LatentPools
from tools.demo_model.optim import Trainer, write_checkpoint

LEARNING_RATE, MATRIX_LEARNING_RATE = 2e-3, 6e-3
SHIFT = 2.5
IMAGES_FIRST = 0.12
"""Share of the time, at its start, in which most data are images: they teach shapes at a fifth of the cost."""
MINUTES_PER_REPORT, MINUTES_PER_EVALUATION = 1.0, 10.0


def build(channels: int) -> WanTransformer3DModel:
    """Return an untrained transformer of about 1.8 million parameters over `channels` latent channels."""
    model = WanTransformer3DModel(
        patch_size=(1, 2, 2), num_attention_heads=4, attention_head_dim=32, in_channels=channels,
        out_channels=channels, text_dim=text.WIDTH, freq_dim=64, ffn_dim=512, num_layers=6, cross_attn_norm=True,
    )  # fmt: skip
    nn.init.zeros_(model.proj_out.weight)
    nn.init.zeros_(model.proj_out.bias)
    return model


class DiTStage:
    """The models of stage two and the state of their training."""

    def __init__(self, vae: AutoencoderKLWan, seed: int) -> None:
        torch.manual_seed(seed)
        self.vae, self.tokenizer = vae, text.build_tokenizer()
        self.encoder = text.build_encoder(len(self.tokenizer))
        self.transformer = build(vae.config.z_dim)
        modules = nn.ModuleDict({"text": self.encoder, "dit": self.transformer})
        self.trainer = Trainer(modules, LEARNING_RATE, MATRIX_LEARNING_RATE, ema=0.998, warmup=100)
        self.rng = random.Random(seed)
        self.pools = LatentPools(vae, self.rng, torch.Generator().manual_seed(seed))
        self.seconds = 0.0

    def train(self, checkpoint: Path, minutes: float, evaluate: Callable[["DiTStage"], None]) -> None:
        """Train until `minutes` of wall clock, with `self.seconds` included, and end on the averaged weights."""
        start, now = time.monotonic() - self.seconds, time.monotonic()
        reported, evaluated, sums = now, now, [0.0, 0.0]
        while (seconds := time.monotonic() - start) < minutes * 60:
            progress = seconds / (minutes * 60)
            loss = self.loss(self._choose_bucket(progress))
            self.trainer.step(loss, progress)
            sums = [sums[0] + loss.item(), sums[1] + 1]
            if time.monotonic() - reported > MINUTES_PER_REPORT * 60:
                print(
                    f"dit {seconds / 60:5.1f} min  step {self.trainer.steps}  loss {sums[0] / sums[1]:.4f}", flush=True
                )
                self.seconds = seconds
                self.save(checkpoint)
                reported, sums = time.monotonic(), [0.0, 0.0]
            if time.monotonic() - evaluated > MINUTES_PER_EVALUATION * 60:
                self.trainer.swap_ema()
                evaluate(self)
                self.trainer.swap_ema()
                evaluated = time.monotonic()
        self.seconds = seconds
        self.save(checkpoint)
        self.trainer.swap_ema()

    def loss(self, bucket: Bucket) -> Tensor:
        """Return the mean squared error of the velocity on a batch of `bucket`."""
        scenes, clean = self.pools.batch(bucket)
        lengths = [self.rng.randint(*text.MAX_LENGTHS) for _ in scenes]
        u = torch.rand(len(scenes))
        t = SHIFT * u / (1 + (SHIFT - 1) * u)
        noise = torch.randn_like(clean)
        mix = t.view(-1, 1, 1, 1, 1)
        with torch.autocast("cpu", torch.bfloat16):
            embeds, bias = text.embed(self.encoder, self.tokenizer, text.captions(scenes, self.rng), lengths)
            predicted = velocity(self.transformer, (1 - mix) * clean + mix * noise, t * 1000, embeds, bias)
        return F.mse_loss(predicted.float(), noise - clean)

    def save(self, path: Path) -> None:
        """Write a checkpoint atomically. Raises OSError."""
        latents = {"mean": self.pools.mean, "std": self.pools.std}
        write_checkpoint(path, {"trainer": self.trainer.state_dict(), "spent": self.seconds, **latents})

    def load(self, path: Path) -> None:
        """Load a checkpoint; the pools of latents are filled anew. Raises OSError."""
        saved = torch.load(path)
        self.trainer.load_state_dict(saved["trainer"])
        self.seconds, self.pools.mean, self.pools.std = saved["spent"], saved["mean"], saved["std"]

    def _choose_bucket(self, progress: float) -> Bucket:
        early = progress < IMAGES_FIRST
        return self.rng.choices(BUCKETS, [b.early if early else b.late for b in BUCKETS])[0]


def velocity(model: WanTransformer3DModel, noisy: Tensor, t: Tensor, embeds: Tensor, bias: Tensor) -> Tensor:
    """Compute `model(noisy, t, embeds)` with `bias` added to the logits over `embeds`, fast in training on a CPU.

    noisy: float32 [B, z, f, h, w]; t: float32 [B] in 0..1000; embeds: [B, L, 64]; bias: [B, 1, 1, L].
    """
    batch, channels, frames, height, width = noisy.shape
    cos, sin = (f[0, :, 0].float() for f in model.rope(noisy))
    x = noisy.view(batch, channels, frames, height // 2, 2, width // 2, 2)
    x = x.permute(0, 2, 3, 5, 1, 4, 6).reshape(batch, -1, channels * 4)
    x = F.linear(x, model.patch_embedding.weight.flatten(1), model.patch_embedding.bias).float()
    temb, modulation, embeds, _ = model.condition_embedder(t, embeds)
    modulation = modulation.float().unflatten(1, (6, -1))
    rotation = cos[:, 0::2], sin[:, 1::2]
    for block in model.blocks:
        x = _compiled_block(block, x, embeds, modulation, rotation, bias)
    shift, scale = (model.scale_shift_table + temb.float().unsqueeze(1)).chunk(2, dim=1)
    x = model.proj_out(F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift)
    x = x.view(batch, frames, height // 2, width // 2, 2, 2, channels)
    result: Tensor = x.permute(0, 6, 1, 2, 4, 3, 5).reshape(batch, channels, frames, height, width)
    return result


def _block(
    block: WanTransformerBlock,
    x: Tensor,
    embeds: Tensor,
    modulation: Tensor,
    rotation: tuple[Tensor, Tensor],
    bias: Tensor,
) -> Tensor:
    shift, scale, gate, ff_shift, ff_scale, ff_gate = (block.scale_shift_table + modulation).chunk(6, dim=1)
    h = F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift
    x = x + _attend(block.attn1, h, h, rotation, None) * gate
    h = block.norm2(x)
    x = x + _attend(block.attn2, h, embeds, None, bias)
    h = F.layer_norm(x, x.shape[-1:]) * (1 + ff_scale) + ff_shift
    result: Tensor = x + block.ffn(h) * ff_gate
    return result


# One graph for all blocks and sizes: twice as fast as eager, after two minutes of compilation.
_compiled_block = torch.compile(_block, dynamic=True)


def _attend(
    attn: WanAttention, x: Tensor, context: Tensor, rotation: tuple[Tensor, Tensor] | None, bias: Tensor | None
) -> Tensor:
    q, k, v = _rms_norm(attn.norm_q, attn.to_q(x)), _rms_norm(attn.norm_k, attn.to_k(context)), attn.to_v(context)
    # Not F.scaled_dot_product_attention: on a CPU its backward pass is eight times slower at these sizes.
    q, k, v = (y.unflatten(2, (attn.heads, -1)).transpose(1, 2) for y in (q, k, v))
    if rotation is not None:
        q, k = _rotate(q, *rotation), _rotate(k, *rotation)
    logits = (q.to(v.dtype) * q.size(-1) ** -0.5) @ k.to(v.dtype).mT
    if bias is not None:
        logits = logits + bias.to(v.dtype)
    y = logits.softmax(-1).to(v.dtype) @ v
    return attn.to_out[0](y.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def _rms_norm(norm: nn.RMSNorm, x: Tensor) -> Tensor:
    """Return `norm(x)` in the dtype of `x`; PyTorch's widens to that of its weight and is slower."""
    return F.rms_norm(x, norm.normalized_shape, None, norm.eps) * norm.weight.to(x.dtype)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply the rotary embedding to adjacent pairs: x [B, heads, N, D], cos and sin [N, D / 2]."""
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)  # type: ignore[no-untyped-call]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
