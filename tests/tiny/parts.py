"""Parts that several tiny pipelines share: tokenizers, text encoders, VAEs."""

from typing import Any

import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    T5Config,
    T5EncoderModel,
)

VOCABULARY = 256 + 3
PAD, BOS, EOS = 256, 257, 258
"""Ids after the 256 bytes. EOS is the largest, which is how older CLIP configurations find the end of a text."""

MARKS = ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<|video_pad|>")
"""Tokens of their own, after EOS, for models that read pictures in their text."""

WIDTH = 32
"""Hidden size of every text encoder."""


def tokenizer(max_length: int, bos: bool = False, marks: tuple[str, ...] = (), **more: Any) -> PreTrainedTokenizerFast:
    """One token per byte, `</s>` at the end: any text in any script can be encoded. `marks` are one token each."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: index for index, symbol in enumerate(alphabet)} | {"<pad>": PAD, "<s>": BOS, "</s>": EOS}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>" if bos else "$A </s>", special_tokens=[("<s>", BOS), ("</s>", EOS)]
    )
    core.add_special_tokens(list(marks))
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<pad>",
        model_max_length=max_length,
        **more,
    )


def clip_tokenizer() -> PreTrainedTokenizerFast:
    """The length and shape of CLIP's."""
    return tokenizer(77, bos=True)


def clip_text(projection: bool = False) -> Any:
    """A CLIP text encoder of width WIDTH."""
    config = CLIPTextConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        projection_dim=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=77,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        hidden_act="gelu",
    )
    return (CLIPTextModelWithProjection if projection else CLIPTextModel)(config).eval()


def t5(width: int = WIDTH, vocabulary: int = VOCABULARY) -> T5EncoderModel:
    """A T5 encoder."""
    config = T5Config(
        vocab_size=vocabulary,
        d_model=width,
        d_kv=16,
        d_ff=WIDTH,
        num_layers=2,
        num_heads=2,
        dropout_rate=0.0,
        pad_token_id=PAD,
        eos_token_id=EOS,
    )
    return T5EncoderModel(config).eval()


def qwen_vl() -> Qwen2_5_VLForConditionalGeneration:
    """A Qwen 2.5 VL language model of width WIDTH with a token vision tower."""
    config = Qwen2_5_VLConfig(
        text_config={
            "hidden_size": WIDTH,
            "intermediate_size": WIDTH,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "vocab_size": VOCABULARY + len(MARKS),
            "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0},
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "pad_token_id": PAD,
        },
        vision_config={
            "depth": 1,
            "hidden_size": WIDTH,
            "intermediate_size": WIDTH,
            "num_heads": 2,
            "out_hidden_size": WIDTH,
            "fullatt_block_indexes": [0],
        },
        vision_start_token_id=VOCABULARY,
        image_token_id=VOCABULARY + 1,
        vision_end_token_id=VOCABULARY + 2,
        video_token_id=VOCABULARY + 3,
    )
    return Qwen2_5_VLForConditionalGeneration(config).eval()


def autoencoder(channels: int, shift: float | None = None, quant: bool = True) -> AutoencoderKL:
    """A KL autoencoder that scales by 8 and makes pictures with contrast."""
    vae = AutoencoderKL(
        block_out_channels=(8, 8, 8, 8),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=1,
        latent_channels=channels,
        norm_num_groups=4,
        sample_size=64,
        shift_factor=shift,
        use_quant_conv=quant,
        use_post_quant_conv=quant,
    )
    return vivid(vae.eval(), vae.decoder.conv_out)


def unet(**more: object) -> UNet2DConditionModel:
    """The UNet of Stable Diffusion, with two levels."""
    return UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=2,
        norm_num_groups=4,
        **more,
    ).eval()


def vivid(vae: Any, last: torch.nn.Module, gain: float = 2.5) -> Any:
    """Scale the last layer, so that random weights use the whole range of levels and clamping has work to do."""
    with torch.no_grad():
        for parameter in last.parameters():
            parameter.mul_(gain)
    return vae
