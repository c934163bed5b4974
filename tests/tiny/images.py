"""Tiny image pipelines."""

import diffusers as d
from diffusers.pipelines.stable_diffusion import StableDiffusionSafetyChecker
from transformers import CLIPConfig, CLIPImageProcessor

from tests.tiny.parts import WIDTH, autoencoder, clip_text, clip_tokenizer, qwen_vl, t5, tokenizer, unet, vivid


def stable_diffusion() -> d.StableDiffusionPipeline:
    """SD 1.5 with its safety checker, whose thresholds are random like everything else."""
    return d.StableDiffusionPipeline(
        vae=autoencoder(4),
        text_encoder=clip_text(),
        tokenizer=clip_tokenizer(),
        unet=unet(cross_attention_dim=WIDTH),
        scheduler=d.DDIMScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False, set_alpha_to_one=False
        ),
        safety_checker=_safety_checker(),
        feature_extractor=CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
    )


def stable_diffusion_xl() -> d.StableDiffusionXLPipeline:
    """SDXL: two text encoders, size conditioning."""
    return d.StableDiffusionXLPipeline(
        vae=autoencoder(4),
        text_encoder=clip_text(),
        text_encoder_2=clip_text(projection=True),
        tokenizer=clip_tokenizer(),
        tokenizer_2=clip_tokenizer(),
        unet=unet(
            cross_attention_dim=2 * WIDTH,
            addition_embed_type="text_time",
            addition_time_embed_dim=8,
            projection_class_embeddings_input_dim=6 * 8 + WIDTH,
            use_linear_projection=True,
        ),
        scheduler=d.EulerDiscreteScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear"),
    )


def stable_diffusion_3() -> d.StableDiffusion3Pipeline:
    """SD 3: three text encoders, MMDiT."""
    return d.StableDiffusion3Pipeline(
        transformer=d.SD3Transformer2DModel(
            sample_size=8,
            patch_size=2,
            in_channels=4,
            out_channels=4,
            num_layers=1,
            attention_head_dim=8,
            num_attention_heads=4,
            caption_projection_dim=32,
            joint_attention_dim=2 * WIDTH,
            pooled_projection_dim=2 * WIDTH,
            pos_embed_max_size=16,
        ).eval(),
        scheduler=d.FlowMatchEulerDiscreteScheduler(),
        vae=autoencoder(4, shift=0.06),
        text_encoder=clip_text(projection=True),
        tokenizer=clip_tokenizer(),
        text_encoder_2=clip_text(projection=True),
        tokenizer_2=clip_tokenizer(),
        text_encoder_3=t5(2 * WIDTH),
        tokenizer_3=tokenizer(77),
    )


def flux() -> d.FluxPipeline:
    """Flux: CLIP and T5, packed latents."""
    return d.FluxPipeline(
        transformer=d.FluxTransformer2DModel(
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=WIDTH,
            pooled_projection_dim=WIDTH,
            guidance_embeds=True,
            axes_dims_rope=(4, 4, 8),
        ).eval(),
        scheduler=d.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=autoencoder(4, shift=0.1, quant=False),
        text_encoder=clip_text(),
        tokenizer=clip_tokenizer(),
        text_encoder_2=t5(),
        tokenizer_2=tokenizer(512),
    )


def qwen_image(vae_width: int = 8) -> d.QwenImagePipeline:
    """Qwen-Image: a language model as text encoder, a video VAE for one frame."""
    vae = d.AutoencoderKLQwenImage(
        base_dim=vae_width,
        z_dim=4,
        dim_mult=[1, 1, 1, 1],
        num_res_blocks=1,
        latents_mean=[0.0] * 4,
        latents_std=[1.0] * 4,
    )
    return d.QwenImagePipeline(
        transformer=d.QwenImageTransformer2DModel(
            in_channels=16,
            out_channels=4,
            num_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=WIDTH,
            axes_dims_rope=(4, 6, 6),
        ).eval(),
        scheduler=d.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=vivid(vae.eval(), vae.decoder.conv_out),
        text_encoder=qwen_vl(),
        tokenizer=tokenizer(2048),
    )


def hunyuan_image() -> d.HunyuanImagePipeline:
    """HunyuanImage 2.1: two text encoders, a VAE that scales by 32, guidance as a component."""
    vae = d.AutoencoderKLHunyuanImage(
        in_channels=3,
        out_channels=3,
        latent_channels=16,
        block_out_channels=(32, 32, 32, 32, 32, 32),
        layers_per_block=1,
        spatial_compression_ratio=32,
        sample_size=64,
        scaling_factor=0.75,
    )
    return d.HunyuanImagePipeline(
        scheduler=d.FlowMatchEulerDiscreteScheduler(),
        vae=vivid(vae.eval(), vae.decoder.conv_out),
        text_encoder=qwen_vl(),
        tokenizer=tokenizer(2048),
        text_encoder_2=t5(),
        tokenizer_2=tokenizer(2048),
        transformer=d.HunyuanImageTransformer2DModel(
            in_channels=16,
            out_channels=16,
            num_attention_heads=2,
            attention_head_dim=16,
            num_layers=1,
            num_single_layers=1,
            num_refiner_layers=1,
            text_embed_dim=WIDTH,
            text_embed_2_dim=WIDTH,
            rope_axes_dim=(8, 8),
        ).eval(),
        guider=d.AdaptiveProjectedMixGuidance(adaptive_projected_guidance_start_step=1),
    )


def kandinsky_3() -> d.Kandinsky3Pipeline:
    """Kandinsky 3: no processor; it checks the output type against a list and makes numpy itself."""
    movq = d.VQModel(
        block_out_channels=(32, 32, 32, 32),
        down_block_types=("DownEncoderBlock2D",) * 3 + ("AttnDownEncoderBlock2D",),
        up_block_types=("AttnUpDecoderBlock2D",) + ("UpDecoderBlock2D",) * 3,
        latent_channels=4,
        norm_num_groups=4,
        num_vq_embeddings=12,
        vq_embed_dim=4,
        norm_type="spatial",
    )
    return d.Kandinsky3Pipeline(
        tokenizer=tokenizer(128),
        text_encoder=t5(),
        unet=d.Kandinsky3UNet(
            time_embedding_dim=4,
            groups=2,
            attention_head_dim=4,
            layers_per_block=3,
            block_out_channels=(32, 64),
            cross_attention_dim=4,
            encoder_hid_dim=WIDTH,
        ).eval(),
        scheduler=d.DDPMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1),
        movq=vivid(movq.eval(), movq.decoder.conv_out),
    )


def _safety_checker() -> StableDiffusionSafetyChecker:
    config = CLIPConfig(
        text_config={
            "hidden_size": WIDTH,
            "intermediate_size": WIDTH,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
        },
        vision_config={
            "hidden_size": WIDTH,
            "intermediate_size": WIDTH,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": 32,
            "patch_size": 8,
        },
        projection_dim=WIDTH,
    )
    return StableDiffusionSafetyChecker(config).eval()
