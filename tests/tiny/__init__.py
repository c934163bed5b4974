"""Tiny pipelines with random weights, built from configurations in code: no download, no network.

`save(name, folder)` builds one and saves it as a diffusers folder; `NAMES` lists them. Real classes, real scale factors where
that costs nothing, a second or less each. The `tiny_model` fixture of `tests/worker/conftest.py` caches them per session.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.tiny import images, videos

BUILDERS: dict[str, Callable[[], Any]] = {
    "stable_diffusion": images.stable_diffusion,
    "stable_diffusion_xl": images.stable_diffusion_xl,
    "stable_diffusion_3": images.stable_diffusion_3,
    "flux": images.flux,
    "qwen_image": images.qwen_image,
    "hunyuan_image": images.hunyuan_image,
    "kandinsky_3": images.kandinsky_3,
    "ddim": images.ddim,
    "wan": videos.wan,
    "wan_ti2v": videos.wan_ti2v,
    "ltx": videos.ltx,
}

NAMES = tuple(BUILDERS)


def save(name: str, folder: Path) -> Path:
    """Build the pipeline `name` with weights that depend on nothing but the name, and save it in `folder`."""
    with torch.random.fork_rng():
        torch.manual_seed(sum(name.encode()))
        BUILDERS[name]().save_pretrained(folder, safe_serialization=True)
    return folder
