"""Tiny pipelines of the Wan family, and Helios, which shares its VAE and text encoder."""

from typing import Any

import diffusers as d

from tests.tiny.parts import MARKS, VOCABULARY, WIDTH, tokenizer, vivid
from tests.tiny.texts import chat_tokenizer, clip_pictures, clip_vision, umt5

LATENTS = 4


def wan() -> d.WanPipeline:
    """Wan 2.1: the VAE scales by 8 and 4, sizes are multiples of 16."""
    return d.WanPipeline(transformer=_transformer(), **_shared(wan_vae()))


def wan_ti2v() -> d.WanPipeline:
    """Wan 2.2 TI2V 5B: one timestep per token, a residual VAE that patches pixels and scales by 16 and 4."""
    return d.WanPipeline(transformer=_transformer(), expand_timesteps=True, **_shared(_residual_vae()))


def wan_a14b() -> d.WanPipeline:
    """Wan 2.2 A14B: one transformer for the noisy steps, another for the rest, each with its own guidance."""
    both = {"transformer": _transformer(), "transformer_2": _transformer()}
    return d.WanPipeline(boundary_ratio=0.875, **both, **_shared(wan_vae()))


def wan_i2v() -> d.WanImageToVideoPipeline:
    """Wan 2.1 I2V: the first frame as CLIP sees it and as latents beside the noise."""
    return d.WanImageToVideoPipeline(
        transformer=_transformer(in_channels=2 * LATENTS + 4, image_dim=WIDTH, added_kv_proj_dim=32),
        image_encoder=clip_vision(),
        image_processor=clip_pictures(),
        **_shared(wan_vae()),
    )


def wan_flf2v() -> d.WanImageToVideoPipeline:
    """Wan 2.1 FLF2V: the first and the last frame; the image encoder sees both (17 tokens each)."""
    return d.WanImageToVideoPipeline(
        transformer=_transformer(
            in_channels=2 * LATENTS + 4, image_dim=WIDTH, added_kv_proj_dim=32, pos_embed_seq_len=2 * 17
        ),
        image_encoder=clip_vision(),
        image_processor=clip_pictures(),
        **_shared(wan_vae()),
    )


def wan_i2v_a14b() -> d.WanImageToVideoPipeline:
    """Wan 2.2 I2V A14B: two transformers, no image encoder."""
    both = {name: _transformer(in_channels=2 * LATENTS + 4) for name in ("transformer", "transformer_2")}
    return d.WanImageToVideoPipeline(boundary_ratio=0.9, **both, **_shared(wan_vae()))


def wan_v2v() -> d.WanVideoToVideoPipeline:
    """Wan 2.1 made to start from a clip."""
    return d.WanVideoToVideoPipeline(transformer=_transformer(), **_shared(wan_vae()))


def wan_vace() -> d.WanVACEPipeline:
    """Wan VACE: a clip, a mask and reference images as control, through layers of their own."""
    transformer = d.WanVACETransformer3DModel(**_sizes(), vace_layers=[0], vace_in_channels=2 * LATENTS + 8 * 8)
    return d.WanVACEPipeline(transformer=transformer.eval(), **_shared(wan_vae()))


def helios() -> d.HeliosPipeline:
    """Helios: chunks of nine latent frames, each after a history at three scales."""
    transformer = d.HeliosTransformer3DModel(
        num_attention_heads=2,
        attention_head_dim=16,
        in_channels=LATENTS,
        out_channels=LATENTS,
        text_dim=WIDTH,
        freq_dim=32,
        ffn_dim=32,
        num_layers=1,
        rope_dim=(4, 6, 6),
    )
    return d.HeliosPipeline(
        transformer=transformer.eval(),
        **_shared(wan_vae())
        | {"scheduler": d.HeliosScheduler(stages=1, stage_range=[0, 1], use_dynamic_shifting=True)},
    )


def _shared(vae: d.AutoencoderKLWan) -> dict[str, Any]:
    return {
        "tokenizer": tokenizer(512),
        "text_encoder": umt5(),
        "vae": vivid(vae.eval(), vae.decoder.conv_out),
        "scheduler": d.UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0),
    }


def wan_vae() -> d.AutoencoderKLWan:
    return d.AutoencoderKLWan(
        base_dim=8,
        z_dim=LATENTS,
        dim_mult=[1, 1, 1, 1],
        num_res_blocks=1,
        temperal_downsample=[False, True, True],
        latents_mean=[0.0] * LATENTS,
        latents_std=[1.0] * LATENTS,
    )


def _residual_vae() -> d.AutoencoderKLWan:
    return d.AutoencoderKLWan(
        base_dim=8,
        decoder_base_dim=8,
        z_dim=LATENTS,
        dim_mult=[1, 1, 1, 1],
        num_res_blocks=1,
        temperal_downsample=[False, True, True],
        is_residual=True,
        in_channels=12,
        out_channels=12,
        patch_size=2,
        scale_factor_spatial=16,
        latents_mean=[0.0] * LATENTS,
        latents_std=[1.0] * LATENTS,
    )


def _sizes() -> dict[str, Any]:
    return {
        "num_attention_heads": 2,
        "attention_head_dim": 16,
        "in_channels": LATENTS,
        "out_channels": LATENTS,
        "text_dim": WIDTH,
        "freq_dim": 32,
        "ffn_dim": 32,
        "num_layers": 1,
        "rope_max_seq_len": 64,
    }


def _transformer(**more: Any) -> d.WanTransformer3DModel:
    return d.WanTransformer3DModel(**_sizes() | more).eval()


def cosmos_3() -> d.Cosmos3OmniPipeline:
    """Cosmos 3: one transformer for text and video; its output is a single clip without a batch axis."""
    text = chat_tokenizer(512, marks=MARKS)
    return d.Cosmos3OmniPipeline(
        transformer=d.Cosmos3OmniTransformer(
            dtype="float32",
            head_dim=16,
            hidden_size=WIDTH,
            intermediate_size=WIDTH,
            latent_channel=LATENTS,
            num_attention_heads=2,
            num_hidden_layers=1,
            num_key_value_heads=1,
            patch_latent_dim=4 * LATENTS,
            rope_scaling={"mrope_section": [2, 3, 3], "rope_type": "default"},
            vocab_size=VOCABULARY + len(MARKS),
        ).eval(),
        text_tokenizer=text,
        vae=wan_vae(),
        scheduler=d.UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0),
        enable_safety_checker=False,
    )


def skyreels_v2v() -> d.SkyReelsV2DiffusionForcingVideoToVideoPipeline:
    """SkyReels V2 made to go on with a clip: its output is longer than its input."""
    transformer = d.SkyReelsV2Transformer3DModel(**_sizes())
    return d.SkyReelsV2DiffusionForcingVideoToVideoPipeline(transformer=transformer.eval(), **_shared(wan_vae()))
