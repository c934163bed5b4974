"""Tiny pipelines with random weights, built from configurations in code: no download, no network.

`save(name, folder)` builds one and saves it as a diffusers folder; `NAMES` lists them. Real classes, real scale factors
where that costs nothing, a second or less each. The `tiny_model` fixture of `tests/worker/conftest.py` caches them per
session.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.tiny import edits, images, newer, predictions, siblings, sounds, videos, wan

BUILDERS: dict[str, Callable[[], Any]] = {
    build.__name__: build
    for build in (
        images.stable_diffusion,
        images.stable_diffusion_xl,
        images.stable_diffusion_3,
        images.flux,
        images.qwen_image,
        images.hunyuan_image,
        images.kandinsky_3,
        edits.stable_diffusion_img2img,
        edits.stable_diffusion_inpaint,
        edits.stable_diffusion_controlnet,
        edits.blackening,
        edits.stable_diffusion_xl_img2img,
        edits.stable_diffusion_3_img2img,
        edits.flux_img2img,
        edits.flux_kontext,
        edits.qwen_image_edit,
        newer.flux_2,
        newer.flux_2_klein,
        newer.z_image,
        newer.sana,
        newer.pixart_sigma,
        newer.lumina_2,
        newer.chroma,
        newer.latent_consistency,
        newer.kandinsky_22,
        newer.ddpm,
        newer.ddim,
        newer.kandinsky_5,
        predictions.marigold_depth,
        predictions.marigold_normals,
        predictions.marigold_intrinsics,
        wan.wan,
        wan.wan_ti2v,
        wan.wan_a14b,
        wan.wan_i2v,
        wan.wan_flf2v,
        wan.wan_i2v_a14b,
        wan.wan_v2v,
        wan.wan_vace,
        wan.helios,
        wan.cosmos_3,
        wan.skyreels_v2v,
        videos.ltx,
        videos.ltx_i2v,
        videos.ltx_2,
        videos.hunyuan_video,
        videos.hunyuan_video_15,
        videos.cogvideox,
        videos.mochi,
        videos.sana_video,
        videos.animatediff,
        videos.stable_video_diffusion,
        sounds.stable_audio,
        sounds.stable_audio_3,
        sounds.longcat_audio,
        sounds.audioldm_2,
        sounds.ace_step,
        siblings.stable_diffusion_pix2pix,
        siblings.stable_diffusion_xl_controlnet,
        siblings.ltx_condition,
    )
} | {name: partial(siblings.sibling, name) for name in siblings.SIBLINGS}

NAMES = tuple(BUILDERS)


def save(name: str, folder: Path) -> Path:
    """Build the pipeline `name` with weights that depend on nothing but the name, and save it in `folder`."""
    with torch.random.fork_rng():
        torch.manual_seed(sum(name.encode()))
        BUILDERS[name]().save_pretrained(folder, safe_serialization=True)
    return folder
