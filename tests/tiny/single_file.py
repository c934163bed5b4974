"""A tiny Stable Diffusion as one file, its tensors named as the original code names them."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}
# Blocks of the tiny UNet (two levels, one layer each) -> places in the original's lists.
UNET = {
    "conv_in": "input_blocks.0.0",
    "down_blocks.0.resnets.0": "input_blocks.1.0",
    "down_blocks.0.downsamplers.0.conv": "input_blocks.2.0.op",
    "down_blocks.1.resnets.0": "input_blocks.3.0",
    "down_blocks.1.attentions.0": "input_blocks.3.1",
    "mid_block.resnets.0": "middle_block.0",
    "mid_block.attentions.0": "middle_block.1",
    "mid_block.resnets.1": "middle_block.2",
    "up_blocks.0.resnets.0": "output_blocks.0.0",
    "up_blocks.0.attentions.0": "output_blocks.0.1",
    "up_blocks.0.resnets.1": "output_blocks.1.0",
    "up_blocks.0.attentions.1": "output_blocks.1.1",
    "up_blocks.0.upsamplers.0.conv": "output_blocks.1.2.conv",
    "up_blocks.1.resnets.0": "output_blocks.2.0",
    "up_blocks.1.resnets.1": "output_blocks.3.0",
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "conv_norm_out": "out.0",
    "conv_out": "out.2",
}
VAE_LEVELS = 4
VAE_ATTENTION = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "proj_out"}


def write(pipeline: Any, path: Path) -> None:
    """Write UNet, VAE and text encoder of a tiny `pipeline` into one .safetensors file."""
    tensors = {f"model.diffusion_model.{_unet(key)}": value for key, value in pipeline.unet.state_dict().items()}
    for key, value in pipeline.vae.state_dict().items():
        name = _vae(key)
        is_attention = ".attn_1." in name and name.endswith("weight") and ".norm." not in name
        tensors[f"first_stage_model.{name}"] = value[:, :, None, None] if is_attention else value
    for key, value in pipeline.text_encoder.state_dict().items():
        prefix = "" if key.startswith("text_model.") else "text_model."
        tensors[f"cond_stage_model.transformer.{prefix}{key}"] = value
    save_file({key: value.detach().clone().to(torch.float32) for key, value in tensors.items()}, path)


def _unet(key: str) -> str:
    place = max((place for place in UNET if key.startswith(f"{place}.")), key=len)
    rest = key.removeprefix(f"{place}.")
    layer, _, parameter = rest.rpartition(".")
    if ".resnets." in f".{place}":
        rest = f"{RESNET[layer]}.{parameter}"
    return f"{UNET[place]}.{rest}"


def _vae(key: str) -> str:
    key = key.replace("mid_block.resnets.0", "mid.block_1").replace("mid_block.resnets.1", "mid.block_2")
    key = key.replace("conv_norm_out", "norm_out").replace("conv_shortcut", "nin_shortcut")
    for level in range(VAE_LEVELS):
        key = key.replace(f"down_blocks.{level}.downsamplers.0.", f"down.{level}.downsample.")
        key = key.replace(f"down_blocks.{level}.resnets.", f"down.{level}.block.")
        key = key.replace(f"up_blocks.{level}.upsamplers.0.", f"up.{VAE_LEVELS - 1 - level}.upsample.")
        key = key.replace(f"up_blocks.{level}.resnets.", f"up.{VAE_LEVELS - 1 - level}.block.")
    if "mid_block.attentions.0." in key:
        key = key.replace("mid_block.attentions.0.", "mid.attn_1.")
        for ours, theirs in VAE_ATTENTION.items():
            key = key.replace(f"attn_1.{ours}.", f"attn_1.{theirs}.")
    return key
