"""Tiny video pipelines."""

import diffusers as d
from transformers import UMT5Config, UMT5EncoderModel

from tests.tiny.parts import EOS, PAD, VOCABULARY, WIDTH, t5, tokenizer, vivid


def wan() -> d.WanPipeline:
    """Wan 2.1: the VAE scales by 8 and 4, sizes are multiples of 16."""
    return _wan(
        d.AutoencoderKLWan(
            base_dim=8,
            z_dim=4,
            dim_mult=[1, 1, 1, 1],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
            latents_mean=[0.0] * 4,
            latents_std=[1.0] * 4,
        ),
        expand_timesteps=False,
    )


def wan_ti2v() -> d.WanPipeline:
    """Wan 2.2 TI2V 5B: one timestep per token, a residual VAE that patches pixels and scales by 16 and 4."""
    return _wan(
        d.AutoencoderKLWan(
            base_dim=8,
            decoder_base_dim=8,
            z_dim=4,
            dim_mult=[1, 1, 1, 1],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
            is_residual=True,
            in_channels=12,
            out_channels=12,
            patch_size=2,
            scale_factor_spatial=16,
            latents_mean=[0.0] * 4,
            latents_std=[1.0] * 4,
        ),
        expand_timesteps=True,
    )


def ltx() -> d.LTXPipeline:
    """LTX: the VAE scales by 32 and 8, frame counts are 8k+1."""
    vae = d.AutoencoderKLLTXVideo(
        latent_channels=8,
        block_out_channels=(8, 8, 8, 8),
        decoder_block_out_channels=(8, 8, 8, 8),
        layers_per_block=(1, 1, 1, 1, 1),
        decoder_layers_per_block=(1, 1, 1, 1, 1),
    )
    return d.LTXPipeline(
        scheduler=d.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=vivid(vae.eval(), vae.decoder.conv_out),
        text_encoder=t5(),
        tokenizer=tokenizer(128),
        transformer=d.LTXVideoTransformer3DModel(
            in_channels=8,
            out_channels=8,
            num_attention_heads=2,
            attention_head_dim=16,
            cross_attention_dim=32,
            num_layers=1,
            caption_channels=WIDTH,
        ).eval(),
    )


def _wan(vae: d.AutoencoderKLWan, expand_timesteps: bool) -> d.WanPipeline:
    text = UMT5Config(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        d_kv=16,
        d_ff=WIDTH,
        num_layers=2,
        num_heads=2,
        dropout_rate=0.0,
        pad_token_id=PAD,
        eos_token_id=EOS,
    )
    return d.WanPipeline(
        tokenizer=tokenizer(512),
        text_encoder=UMT5EncoderModel(text).eval(),
        transformer=d.WanTransformer3DModel(
            num_attention_heads=2,
            attention_head_dim=16,
            in_channels=4,
            out_channels=4,
            text_dim=WIDTH,
            freq_dim=32,
            ffn_dim=32,
            num_layers=1,
            rope_max_seq_len=64,
        ).eval(),
        vae=vivid(vae.eval(), vae.decoder.conv_out),
        scheduler=d.UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0),
        expand_timesteps=expand_timesteps,
    )
