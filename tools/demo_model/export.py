"""Export of a trained model as a diffusers folder: bfloat16, readable by all users, without paths of this machine."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanPipeline, WanTransformer3DModel
from torch import Tensor
from transformers import PreTrainedTokenizerFast, UMT5EncoderModel

from omni_cli.models.demo import WEIGHTS
from omni_cli.models.user_cards import FOLDER_CARDS

FLOW_SHIFT = 3.0


def build_pipeline(
    vae: AutoencoderKLWan,
    encoder: UMT5EncoderModel,
    tokenizer: PreTrainedTokenizerFast,
    transformer: WanTransformer3DModel,
) -> WanPipeline:
    """Return a pipeline of the parts, which share their weights with it."""
    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=FLOW_SHIFT, solver_order=2
    )
    return WanPipeline(
        tokenizer=tokenizer, text_encoder=encoder, vae=vae, scheduler=scheduler, transformer=transformer,
        boundary_ratio=None, expand_timesteps=False,
    )  # fmt: skip


def set_latent_statistics(vae: AutoencoderKLWan, mean: Tensor, std: Tensor) -> None:
    """Set mean and deviation of the latents, float32 [1, z, 1, 1, 1] each, in the config that the pipeline reads."""
    rounded = [[round(x, 5) for x in values.flatten().tolist()] for values in (mean, std)]
    vae.register_to_config(latents_mean=rounded[0], latents_std=rounded[1])


def export(pipe: WanPipeline, folder: Path) -> None:
    """Write the pipeline in bfloat16, which its parts stay, and the card of the demo to `folder`. Raises OSError."""
    for part in (pipe.vae, pipe.text_encoder, pipe.transformer):
        for tensor in part.parameters():
            tensor.data = tensor.data.to(torch.bfloat16).contiguous()
    pipe.save_pretrained(folder, safe_serialization=True)
    _remove_local_traces(folder)
    (folder / FOLDER_CARDS).write_bytes((WEIGHTS / FOLDER_CARDS).read_bytes())


def _remove_local_traces(folder: Path) -> None:
    for path in folder.glob("*/config.json"):
        _edit(path, lambda config: config.pop("_name_or_path", None))
    _edit(folder / "model_index.json", _edit_model_index)
    _edit(folder / "tokenizer" / "tokenizer_config.json", _edit_tokenizer_config)
    _edit(folder / "tokenizer" / "tokenizer.json", lambda config: config.update(truncation=None, padding=None))
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _edit_model_index(config: dict[str, object]) -> None:
    """Name a tokenizer class that transformers 4 and 5 load; transformers 5 writes one that 4 does not know."""
    config["tokenizer"] = ["transformers", "PreTrainedTokenizerFast"]
    config.pop("_name_or_path", None)


def _edit_tokenizer_config(config: dict[str, object]) -> None:
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    for name in ("is_local", "local_files_only", "name_or_path", "max_length", "pad_to_multiple_of", "truncation_side",
                  "truncation_strategy", "stride", "pad_token_type_id", "padding_side"):  # fmt: skip
        config.pop(name, None)


def _edit(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config, indent=2) + "\n")
