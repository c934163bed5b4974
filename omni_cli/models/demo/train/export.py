"""Writes a trained model as a diffusers folder that can be shipped: bfloat16, readable by all, no traces of here."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanPipeline, WanTransformer3DModel
from torch import Tensor
from transformers import PreTrainedTokenizerFast, UMT5EncoderModel

FLOW_SHIFT = 3.0


def pipeline(
    vae: AutoencoderKLWan,
    encoder: UMT5EncoderModel,
    words: PreTrainedTokenizerFast,
    transformer: WanTransformer3DModel,
) -> WanPipeline:
    """The parts as one pipeline, sharing their weights."""
    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=FLOW_SHIFT, solver_order=2
    )
    return WanPipeline(
        tokenizer=words, text_encoder=encoder, vae=vae, scheduler=scheduler, transformer=transformer,
        boundary_ratio=None, expand_timesteps=False,
    )  # fmt: skip


def set_statistics(vae: AutoencoderKLWan, mean: Tensor, std: Tensor) -> None:
    """Puts the latents' statistics, z values each, where the pipeline looks for them."""
    rounded = [[round(x, 5) for x in values.flatten().tolist()] for values in (mean, std)]
    vae.register_to_config(latents_mean=rounded[0], latents_std=rounded[1])


def export(pipe: WanPipeline, folder: Path) -> None:
    """Writes the pipeline to `folder` in bfloat16; its parts are bfloat16 afterwards."""
    for part in (pipe.vae, pipe.text_encoder, pipe.transformer):
        for tensor in part.parameters():
            tensor.data = tensor.data.to(torch.bfloat16).contiguous()
    pipe.save_pretrained(folder, safe_serialization=True)
    _clean(folder)


def _clean(folder: Path) -> None:
    for config in folder.glob("*/config.json"):
        _edit(config, lambda facts: facts.pop("_name_or_path", None))
    _edit(folder / "model_index.json", _plain_tokenizer)
    _edit(folder / "tokenizer" / "tokenizer_config.json", _plain_tokenizer_config)
    _edit(folder / "tokenizer" / "tokenizer.json", lambda facts: facts.update(truncation=None, padding=None))
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _plain_tokenizer(facts: dict[str, object]) -> None:
    """Transformers 5 writes a class that transformers 4 does not know; both load this one."""
    facts["tokenizer"] = ["transformers", "PreTrainedTokenizerFast"]
    facts.pop("_name_or_path", None)


def _plain_tokenizer_config(facts: dict[str, object]) -> None:
    facts["tokenizer_class"] = "PreTrainedTokenizerFast"
    for trace in ("is_local", "local_files_only", "name_or_path", "max_length", "pad_to_multiple_of", "truncation_side",
                  "truncation_strategy", "stride", "pad_token_type_id", "padding_side"):  # fmt: skip
        facts.pop(trace, None)


def _edit(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    facts = json.loads(path.read_text())
    change(facts)
    path.write_text(json.dumps(facts, indent=2) + "\n")
