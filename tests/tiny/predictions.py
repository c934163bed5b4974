"""Tiny pipelines that say something of a picture: its depth, its normals, what it is made of."""

from typing import Any

import diffusers as d

from tests.tiny import images
from tests.tiny.parts import WIDTH, unet


def marigold_depth() -> d.MarigoldDepthPipeline:
    """Depth: one channel in 0..1."""
    return d.MarigoldDepthPipeline(**_parts(8), prediction_type="depth", **_DEFAULTS)


def marigold_normals() -> d.MarigoldNormalsPipeline:
    """Normals: vectors in -1..1."""
    return d.MarigoldNormalsPipeline(**_parts(8), prediction_type="normals", **_DEFAULTS)


def marigold_intrinsics() -> d.MarigoldIntrinsicsPipeline:
    """Intrinsics: two pictures of every picture."""
    targets = {
        "target_names": ["albedo", "material"],
        "albedo": {"prediction_space": "srgb"},
        "material": {"prediction_space": "stack"},
    }
    return d.MarigoldIntrinsicsPipeline(
        **_parts(12), prediction_type="intrinsics", target_properties=targets, **_DEFAULTS
    )


_DEFAULTS = {"default_denoising_steps": 3, "default_processing_resolution": 0}


def _parts(channels: int) -> dict[str, Any]:
    """The parts of Stable Diffusion, with a UNet that sees the picture's latents, `channels` in all."""
    parts = images.stable_diffusion().components
    return {
        "unet": unet(cross_attention_dim=WIDTH, in_channels=channels, out_channels=channels - 4),
        "vae": parts["vae"],
        "scheduler": d.DDIMScheduler(timestep_spacing="trailing", clip_sample=False),
        "text_encoder": parts["text_encoder"],
        "tokenizer": parts["tokenizer"],
    }
