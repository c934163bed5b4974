"""Tiny video pipelines, but for the Wan family."""

from typing import Any

import diffusers as d
from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors
from diffusers.pipelines.ltx2.vocoder import LTX2Vocoder
from transformers import CLIPImageProcessor, CLIPVisionConfig, CLIPVisionModelWithProjection

from tests.tiny.parts import WIDTH, autoencoder, clip_text, clip_tokenizer, t5, tokenizer, unet, vivid
from tests.tiny.texts import byt5_tokenizer, chat_tokenizer, gemma2, gemma3, llama, qwen_text
from tests.tiny.wan import wan_vae

_HEADS = {"num_attention_heads": 2, "attention_head_dim": 16}


def ltx() -> d.LTXPipeline:
    """LTX: the VAE scales by 32 and 8, frame counts are 8k+1."""
    return d.LTXPipeline(**_ltx())


def ltx_i2v() -> d.LTXImageToVideoPipeline:
    """LTX that starts from a picture."""
    return d.LTXImageToVideoPipeline(**_ltx())


def ltx_2() -> d.LTX2Pipeline:
    """LTX-2: a picture transformer and a sound transformer that listen to each other, a vocoder at the end."""
    vae = d.AutoencoderKLLTX2Video(
        latent_channels=4,
        block_out_channels=(8, 8, 8, 8),
        decoder_block_out_channels=(8, 16, 32),
        layers_per_block=(1, 1, 1, 1, 1),
        decoder_layers_per_block=(1, 1, 1, 1),
        spatial_compression_ratio=32,
        temporal_compression_ratio=8,
    )
    audio_vae = d.AutoencoderKLLTX2Audio(
        base_channels=8, ch_mult=(1, 2, 4), num_res_blocks=1, latent_channels=2, resolution=32, mel_bins=16
    )
    return d.LTX2Pipeline(
        scheduler=d.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=vivid(vae.eval(), vae.decoder.conv_out),
        audio_vae=audio_vae.eval(),
        text_encoder=gemma3(),
        tokenizer=tokenizer(1024),
        connectors=LTX2TextConnectors(
            caption_channels=WIDTH,
            text_proj_in_factor=3,
            video_connector_num_attention_heads=2,
            video_connector_attention_head_dim=16,
            video_connector_num_layers=1,
            audio_connector_num_attention_heads=2,
            audio_connector_attention_head_dim=16,
            audio_connector_num_layers=1,
        ).eval(),
        transformer=d.LTX2VideoTransformer3DModel(
            in_channels=4,
            out_channels=4,
            **_HEADS,
            cross_attention_dim=32,
            audio_in_channels=8,
            audio_out_channels=8,
            audio_num_attention_heads=2,
            audio_attention_head_dim=8,
            audio_cross_attention_dim=16,
            num_layers=1,
            caption_channels=WIDTH,
        ).eval(),
        vocoder=LTX2Vocoder(
            in_channels=32,
            hidden_channels=32,
            upsample_kernel_sizes=[16, 15, 8, 4, 4],
            upsample_factors=[6, 5, 2, 2, 2],
            resnet_kernel_sizes=[3],
            resnet_dilations=[[1]],
        ).eval(),
    )


def hunyuan_video() -> d.HunyuanVideoPipeline:
    """HunyuanVideo: Llama and CLIP, a causal 3D VAE, guidance as an input."""
    vae = d.AutoencoderKLHunyuanVideo(
        latent_channels=4, block_out_channels=(8, 8, 8, 8), layers_per_block=1, norm_num_groups=4
    )
    return d.HunyuanVideoPipeline(
        text_encoder=llama(),
        tokenizer=tokenizer(1024),
        transformer=d.HunyuanVideoTransformer3DModel(
            in_channels=4,
            out_channels=4,
            **_HEADS,
            num_layers=1,
            num_single_layers=1,
            num_refiner_layers=1,
            text_embed_dim=WIDTH,
            pooled_projection_dim=WIDTH,
            rope_axes_dim=(4, 6, 6),
        ).eval(),
        vae=vivid(vae.eval(), vae.decoder.conv_out),
        scheduler=d.FlowMatchEulerDiscreteScheduler(shift=7.0),
        text_encoder_2=clip_text(),
        tokenizer_2=clip_tokenizer(),
    )


def hunyuan_video_15() -> d.HunyuanVideo15Pipeline:
    """HunyuanVideo 1.5: Qwen and ByT5, a VAE that scales by 16 and 4, guidance as a component."""
    vae = d.AutoencoderKLHunyuanVideo15(latent_channels=4, block_out_channels=(16, 16, 16, 16, 16), layers_per_block=1)
    return d.HunyuanVideo15Pipeline(
        text_encoder=qwen_text(),
        tokenizer=chat_tokenizer(2048),
        transformer=d.HunyuanVideo15Transformer3DModel(
            in_channels=9,
            out_channels=4,
            **_HEADS,
            num_layers=1,
            num_refiner_layers=1,
            text_embed_dim=WIDTH,
            text_embed_2_dim=WIDTH,
            image_embed_dim=WIDTH,
            rope_axes_dim=(4, 6, 6),
            task_type="t2v",
        ).eval(),
        vae=vivid(vae.eval(), vae.decoder.conv_out),
        scheduler=d.FlowMatchEulerDiscreteScheduler(shift=7.0),
        text_encoder_2=t5(vocabulary=384),
        tokenizer_2=byt5_tokenizer(),
        guider=d.ClassifierFreeGuidance(guidance_scale=6.0),
    )


def cogvideox() -> d.CogVideoXPipeline:
    """CogVideoX: T5, a causal VAE that scales by 8 and 4."""
    vae = d.AutoencoderKLCogVideoX(
        latent_channels=4,
        block_out_channels=(8, 8, 8, 8),
        layers_per_block=1,
        norm_num_groups=2,
        temporal_compression_ratio=4,
    )
    return d.CogVideoXPipeline(
        tokenizer=tokenizer(226),
        text_encoder=t5(),
        vae=vivid(vae.eval(), vae.decoder.conv_out),
        transformer=d.CogVideoXTransformer3DModel(
            **_HEADS,
            in_channels=4,
            out_channels=4,
            time_embed_dim=8,
            text_embed_dim=WIDTH,
            num_layers=1,
            sample_width=8,
            sample_height=4,
            sample_frames=9,
        ).eval(),
        scheduler=d.CogVideoXDDIMScheduler(),
    )


def mochi() -> d.MochiPipeline:
    """Mochi: T5, a VAE that scales by 8 and 6."""
    vae = d.AutoencoderKLMochi(
        latent_channels=12,
        encoder_block_out_channels=(32, 32, 32, 32),
        decoder_block_out_channels=(32, 32, 32, 32),
        layers_per_block=(1, 1, 1, 1, 1),
    )
    return d.MochiPipeline(
        scheduler=d.FlowMatchEulerDiscreteScheduler(),
        vae=vivid(vae.eval(), vae.decoder.proj_out),
        text_encoder=t5(),
        tokenizer=tokenizer(256),
        transformer=d.MochiTransformer3DModel(
            **_HEADS, num_layers=2, pooled_projection_dim=16, in_channels=12, text_embed_dim=WIDTH, time_embed_dim=8
        ).eval(),
    )


def sana_video() -> d.SanaVideoPipeline:
    """Sana-Video: linear attention, Wan's VAE, Gemma 2."""
    vae = wan_vae()
    return d.SanaVideoPipeline(
        tokenizer=tokenizer(300),
        text_encoder=gemma2(),
        vae=vivid(vae.eval(), vae.decoder.conv_out),
        transformer=d.SanaVideoTransformer3DModel(
            in_channels=4,
            out_channels=4,
            **_HEADS,
            num_layers=1,
            num_cross_attention_heads=2,
            cross_attention_head_dim=16,
            cross_attention_dim=32,
            caption_channels=WIDTH,
            sample_size=8,
            rope_max_seq_len=64,
        ).eval(),
        scheduler=d.FlowMatchEulerDiscreteScheduler(),
    )


def animatediff() -> d.AnimateDiffPipeline:
    """AnimateDiff: the UNet of Stable Diffusion and a motion adapter."""
    return d.AnimateDiffPipeline(
        vae=autoencoder(4),
        text_encoder=clip_text(),
        tokenizer=clip_tokenizer(),
        unet=unet(cross_attention_dim=WIDTH),
        motion_adapter=d.MotionAdapter(
            block_out_channels=(8, 16),
            motion_layers_per_block=1,
            motion_norm_num_groups=2,
            motion_num_attention_heads=2,
        ).eval(),
        scheduler=d.DDIMScheduler(beta_schedule="linear", clip_sample=False),
    )


def stable_video_diffusion() -> d.StableVideoDiffusionPipeline:
    """SVD: a picture, no text, a VAE that decodes in time."""
    vision = CLIPVisionConfig(
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        projection_dim=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        image_size=224,
        patch_size=56,
    )
    vae = d.AutoencoderKLTemporalDecoder(
        block_out_channels=(32, 32, 32, 32),
        down_block_types=("DownEncoderBlock2D",) * 4,
        layers_per_block=1,
        latent_channels=4,
        sample_size=64,
    )
    return d.StableVideoDiffusionPipeline(
        vae=vivid(vae.eval(), vae.decoder.conv_out),
        image_encoder=CLIPVisionModelWithProjection(vision).eval(),
        unet=d.UNetSpatioTemporalConditionModel(
            block_out_channels=(32, 64),
            layers_per_block=1,
            sample_size=8,
            down_block_types=("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"),
            up_block_types=("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"),
            cross_attention_dim=WIDTH,
            num_attention_heads=(2, 4),
            addition_time_embed_dim=8,
            projection_class_embeddings_input_dim=3 * 8,
        ).eval(),
        scheduler=d.EulerDiscreteScheduler(
            beta_start=0.00085,
            beta_end=0.012,
            beta_schedule="scaled_linear",
            prediction_type="v_prediction",
            use_karras_sigmas=True,
            timestep_type="continuous",
            sigma_min=0.002,
            sigma_max=700.0,
        ),
        feature_extractor=CLIPImageProcessor(size=224, crop_size=224),
    )


def _ltx() -> dict[str, Any]:
    vae = d.AutoencoderKLLTXVideo(
        latent_channels=8,
        block_out_channels=(8, 8, 8, 8),
        decoder_block_out_channels=(8, 8, 8, 8),
        layers_per_block=(1, 1, 1, 1, 1),
        decoder_layers_per_block=(1, 1, 1, 1, 1),
    )
    return {
        "scheduler": d.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        "vae": vivid(vae.eval(), vae.decoder.conv_out),
        "text_encoder": t5(),
        "tokenizer": tokenizer(128),
        "transformer": d.LTXVideoTransformer3DModel(
            in_channels=8, out_channels=8, **_HEADS, cross_attention_dim=32, num_layers=1, caption_channels=WIDTH
        ).eval(),
    }
