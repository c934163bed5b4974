"""Tiny image pipelines of younger kinds, the Kandinskys, and the unconditional ones."""

from typing import Any

import diffusers as d

from tests.tiny.images import stable_diffusion
from tests.tiny.parts import WIDTH, autoencoder, clip_text, clip_tokenizer, qwen_vl, t5, tokenizer, unet, vivid
from tests.tiny.texts import chat_tokenizer, clip_pictures, clip_vision, gemma2, mistral3, picture_processor, qwen3

_HEADS = {"num_attention_heads": 2, "attention_head_dim": 16}


def flux_2() -> d.Flux2Pipeline:
    """Flux 2: hidden states of three layers of Mistral, latents normalized by batch statistics."""
    return d.Flux2Pipeline(text_encoder=mistral3(), tokenizer=chat_tokenizer(512), **_flux_2())


def flux_2_klein() -> d.Flux2KleinPipeline:
    """Flux 2 Klein: the same with Qwen 3, of which layers 9, 18 and 27 are read."""
    return d.Flux2KleinPipeline(text_encoder=qwen3(27), tokenizer=chat_tokenizer(512), **_flux_2())


def z_image() -> d.ZImagePipeline:
    """Z-Image: one stream for text and picture, Qwen 3."""
    return d.ZImagePipeline(
        scheduler=d.FlowMatchEulerDiscreteScheduler(),
        vae=autoencoder(4, shift=0.1, quant=False),
        text_encoder=qwen3(),
        tokenizer=chat_tokenizer(512),
        transformer=d.ZImageTransformer2DModel(
            in_channels=4,
            dim=32,
            n_layers=1,
            n_refiner_layers=1,
            n_heads=2,
            n_kv_heads=2,
            cap_feat_dim=WIDTH,
            axes_dims=[4, 6, 6],
            axes_lens=[1024, 64, 64],
        ).eval(),
    )


def sana() -> d.SanaPipeline:
    """Sana: linear attention, a VAE that scales by 32, Gemma 2."""
    vae = d.AutoencoderDC(
        latent_channels=4,
        attention_head_dim=4,
        encoder_block_types=("ResBlock",) * 5 + ("EfficientViTBlock",),
        decoder_block_types=("ResBlock",) * 5 + ("EfficientViTBlock",),
        encoder_block_out_channels=(8,) * 6,
        decoder_block_out_channels=(8,) * 6,
        encoder_layers_per_block=(1,) * 6,
        decoder_layers_per_block=(1,) * 6,
        encoder_qkv_multiscales=((),) * 5 + ((5,),),
        decoder_qkv_multiscales=((),) * 5 + ((5,),),
    )
    return d.SanaPipeline(
        tokenizer=tokenizer(300),
        text_encoder=gemma2(),
        vae=vivid(vae.eval(), vae.decoder.conv_out),
        transformer=d.SanaTransformer2DModel(
            in_channels=4,
            out_channels=4,
            **_HEADS,
            num_layers=1,
            num_cross_attention_heads=2,
            cross_attention_head_dim=16,
            cross_attention_dim=32,
            caption_channels=WIDTH,
            sample_size=4,
        ).eval(),
        scheduler=d.FlowMatchEulerDiscreteScheduler(shift=3.0),
    )


def pixart_sigma() -> d.PixArtSigmaPipeline:
    """PixArt Sigma: T5, sizes that it would bin if it were let."""
    return d.PixArtSigmaPipeline(
        tokenizer=tokenizer(300),
        text_encoder=t5(),
        vae=autoencoder(4),
        transformer=d.PixArtTransformer2DModel(
            **_HEADS, num_layers=1, cross_attention_dim=32, sample_size=8, caption_channels=WIDTH, out_channels=8
        ).eval(),
        scheduler=d.DPMSolverMultistepScheduler(),
    )


def lumina_2() -> d.Lumina2Pipeline:
    """Lumina 2: one stream, Gemma 2."""
    return d.Lumina2Pipeline(
        transformer=d.Lumina2Transformer2DModel(
            sample_size=8,
            in_channels=4,
            hidden_size=32,
            num_layers=1,
            num_refiner_layers=1,
            num_attention_heads=2,
            num_kv_heads=2,
            multiple_of=16,
            axes_dim_rope=(4, 6, 6),
            axes_lens=(512, 64, 64),
            cap_feat_dim=WIDTH,
        ).eval(),
        scheduler=d.FlowMatchEulerDiscreteScheduler(),
        vae=autoencoder(4, shift=0.1, quant=False),
        text_encoder=gemma2(),
        tokenizer=tokenizer(256),
    )


def chroma() -> d.ChromaPipeline:
    """Chroma: Flux without CLIP, modulated by an approximator."""
    return d.ChromaPipeline(
        scheduler=d.FlowMatchEulerDiscreteScheduler(),
        vae=autoencoder(4, shift=0.1, quant=False),
        text_encoder=t5(),
        tokenizer=tokenizer(512),
        transformer=d.ChromaTransformer2DModel(
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            **_HEADS,
            joint_attention_dim=WIDTH,
            axes_dims_rope=(4, 4, 8),
            approximator_num_channels=64,
            approximator_hidden_dim=32,
            approximator_layers=1,
        ).eval(),
    )


def latent_consistency() -> d.LatentConsistencyModelPipeline:
    """LCM: few steps, guidance as an input of the UNet."""
    parts = stable_diffusion().components | {
        "unet": unet(cross_attention_dim=WIDTH, time_cond_proj_dim=32),
        "scheduler": d.LCMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear"),
    }
    return d.LatentConsistencyModelPipeline(**parts | {"safety_checker": None})


def kandinsky_22() -> d.KandinskyV22CombinedPipeline:
    """Kandinsky 2.2: a prior from text to image embedding, a decoder from there; it makes numpy itself."""
    movq = d.VQModel(
        block_out_channels=(32, 32, 32, 64),
        down_block_types=("DownEncoderBlock2D",) * 3 + ("AttnDownEncoderBlock2D",),
        up_block_types=("AttnUpDecoderBlock2D",) + ("UpDecoderBlock2D",) * 3,
        latent_channels=4,
        norm_num_groups=8,
        num_vq_embeddings=12,
        vq_embed_dim=4,
        norm_type="spatial",
    )
    return d.KandinskyV22CombinedPipeline(
        unet=d.UNet2DConditionModel(
            in_channels=4,
            out_channels=8,
            addition_embed_type="image",
            down_block_types=("ResnetDownsampleBlock2D", "SimpleCrossAttnDownBlock2D"),
            up_block_types=("SimpleCrossAttnUpBlock2D", "ResnetUpsampleBlock2D"),
            mid_block_type="UNetMidBlock2DSimpleCrossAttn",
            block_out_channels=(32, 64),
            layers_per_block=1,
            encoder_hid_dim=WIDTH,
            encoder_hid_dim_type="image_proj",
            cross_attention_dim=WIDTH,
            attention_head_dim=4,
            resnet_time_scale_shift="scale_shift",
        ).eval(),
        scheduler=d.DDPMScheduler(
            beta_schedule="linear", beta_start=0.00085, beta_end=0.012, clip_sample=False, prediction_type="epsilon"
        ),
        movq=vivid(movq.eval(), movq.decoder.conv_out),
        prior_prior=d.PriorTransformer(
            num_attention_heads=2, attention_head_dim=12, embedding_dim=WIDTH, num_layers=1
        ).eval(),
        prior_image_encoder=clip_vision(projection=True),
        prior_text_encoder=clip_text(projection=True),
        prior_tokenizer=clip_tokenizer(),
        prior_scheduler=d.UnCLIPScheduler(variance_type="fixed_small_log", prediction_type="sample"),
        prior_image_processor=clip_pictures(),
    )


def ddpm() -> d.DDPMPipeline:
    """A pipeline without text, processor or card, that hears of steps through its progress bar only."""
    return d.DDPMPipeline(unet=_plain_unet(), scheduler=d.DDPMScheduler())


def ddim() -> d.DDIMPipeline:
    """The same with DDIM."""
    return d.DDIMPipeline(unet=_plain_unet(), scheduler=d.DDIMScheduler())


def _plain_unet() -> d.UNet2DModel:
    return d.UNet2DModel(
        sample_size=16,
        block_out_channels=(8, 8),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
    ).eval()


def _flux_2() -> dict[str, Any]:
    vae = d.AutoencoderKLFlux2(
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(8, 8, 8, 8),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=4,
        sample_size=64,
    )
    return {
        "scheduler": d.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        "vae": vivid(vae.eval(), vae.decoder.conv_out),
        "transformer": d.Flux2Transformer2DModel(
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            **_HEADS,
            joint_attention_dim=3 * WIDTH,
            timestep_guidance_channels=32,
            axes_dims_rope=(4, 4, 4, 4),
        ).eval(),
    }


def kandinsky_5() -> d.Kandinsky5T2IPipeline:
    """Kandinsky 5's pictures: its output is called `image`."""
    processor = picture_processor()
    return d.Kandinsky5T2IPipeline(
        transformer=d.Kandinsky5Transformer3DModel(
            in_visual_dim=4,
            in_text_dim=WIDTH,
            in_text_dim2=WIDTH,
            time_dim=WIDTH,
            out_visual_dim=4,
            model_dim=24,
            ff_dim=WIDTH,
            num_text_blocks=1,
            num_visual_blocks=1,
            axes_dims=(2, 2, 4),
        ).eval(),
        vae=autoencoder(4),
        text_encoder=qwen_vl(),
        tokenizer=processor,
        text_encoder_2=clip_text(),
        tokenizer_2=clip_tokenizer(),
        scheduler=d.FlowMatchEulerDiscreteScheduler(),
    )
