"""Tiny audio pipelines."""

import diffusers as d
from diffusers.pipelines.ace_step import AceStepConditionEncoder
from diffusers.pipelines.audioldm2.modeling_audioldm2 import AudioLDM2ProjectionModel, AudioLDM2UNet2DConditionModel
from diffusers.pipelines.stable_audio import StableAudioProjectionModel
from diffusers.pipelines.stable_audio_3 import StableAudio3DurationEmbedder
from transformers import (
    ClapAudioConfig,
    ClapConfig,
    ClapFeatureExtractor,
    ClapModel,
    ClapTextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    SpeechT5HifiGan,
    SpeechT5HifiGanConfig,
)

from tests.tiny.parts import BOS, EOS, PAD, VOCABULARY, WIDTH, t5, tokenizer, vivid
from tests.tiny.texts import qwen3, umt5


def stable_audio() -> d.StableAudioPipeline:
    """Stable Audio: T5, seconds as conditions, a VAE that makes 2 channels of sound."""
    return d.StableAudioPipeline(
        vae=_oobleck(),
        text_encoder=t5(),
        projection_model=StableAudioProjectionModel(WIDTH, WIDTH, min_value=0, max_value=32).eval(),
        tokenizer=tokenizer(64),
        transformer=d.StableAudioDiTModel(
            sample_size=100,
            in_channels=4,
            out_channels=4,
            num_layers=1,
            attention_head_dim=8,
            num_attention_heads=4,
            num_key_value_attention_heads=2,
            cross_attention_dim=WIDTH,
            cross_attention_input_dim=WIDTH,
            global_states_input_dim=2 * WIDTH,
            time_proj_dim=8,
        ).eval(),
        scheduler=d.EDMDPMSolverMultistepScheduler(),
    )


def stable_audio_3() -> d.StableAudio3Pipeline:
    """Stable Audio 3: its duration is a condition, its steps are those of its scheduler."""
    return d.StableAudio3Pipeline(
        vae=d.AutoencoderSAME(
            patch_size=4,
            encoder_channels=8,
            encoder_c_mults=[2],
            encoder_strides=[2],
            encoder_transformer_depths=[1],
            latent_dim=8,
            dim_heads=8,
            sampling_rate=800,
        ).eval(),
        text_encoder=t5(),
        tokenizer=tokenizer(64),
        duration_embedder=StableAudio3DurationEmbedder(output_dim=WIDTH, fourier_dim=8).eval(),
        transformer=d.StableAudio3DiTModel(
            io_channels=8,
            embed_dim=WIDTH,
            depth=1,
            num_heads=2,
            cond_token_dim=WIDTH,
            global_cond_dim=WIDTH,
            local_add_cond_dim=9,
            timestep_features_dim=8,
            num_memory_tokens=2,
        ).eval(),
        scheduler=d.FlowMatchEulerDiscreteScheduler(stochastic_sampling=True),
    )


def longcat_audio() -> d.LongCatAudioDiTPipeline:
    """LongCat AudioDiT: one channel, at the rate of its VAE."""
    return d.LongCatAudioDiTPipeline(
        vae=d.LongCatAudioDiTVae(
            channels=8,
            c_mults=[1, 2],
            strides=[2, 4],
            latent_dim=8,
            encoder_latent_dim=16,
            downsampling_ratio=8,
            sample_rate=800,
        ).eval(),
        text_encoder=umt5(),
        tokenizer=tokenizer(64),
        transformer=d.LongCatAudioDiTTransformer(
            dit_dim=WIDTH, dit_depth=1, dit_heads=2, dit_text_dim=WIDTH, latent_dim=8
        ).eval(),
        scheduler=d.FlowMatchEulerDiscreteScheduler(shift=1.0, invert_sigmas=True),
    )


def audioldm_2() -> d.AudioLDM2Pipeline:
    """AudioLDM 2: a language model between the text encoders and the UNet, a vocoder behind the VAE."""
    text = ClapTextConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        projection_dim=WIDTH,
        pad_token_id=PAD,
        max_position_embeddings=VOCABULARY + 80,
    )
    sound = ClapAudioConfig(
        spec_size=16,
        window_size=2,
        num_mel_bins=16,
        hidden_size=WIDTH,
        projection_dim=WIDTH,
        depths=[1, 1],
        num_attention_heads=[1, 1],
        patch_size=2,
        patch_stride=2,
        patch_embeds_hidden_size=16,
    )
    clap = ClapConfig(text_config=text.to_dict(), audio_config=sound.to_dict(), projection_dim=WIDTH)
    unet = AudioLDM2UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=(8, 16),
        attention_head_dim=2,
    )
    voice = SpeechT5HifiGanConfig(
        model_in_dim=8,
        sampling_rate=16000,
        upsample_initial_channel=16,
        upsample_rates=[2, 2],
        upsample_kernel_sizes=[4, 4],
        resblock_kernel_sizes=[3, 7],
        resblock_dilation_sizes=[[1, 3, 5], [1, 3, 5]],
        normalize_before=False,
    )
    vocoder = SpeechT5HifiGan(voice).eval()
    return d.AudioLDM2Pipeline(
        vae=d.AutoencoderKL(
            block_out_channels=(8, 8),
            in_channels=1,
            out_channels=1,
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            latent_channels=4,
            norm_num_groups=4,
        ).eval(),
        text_encoder=ClapModel(clap).eval(),
        text_encoder_2=t5(),
        projection_model=AudioLDM2ProjectionModel(WIDTH, WIDTH, 16).eval(),
        language_model=GPT2LMHeadModel(
            GPT2Config(
                n_embd=16,
                n_head=2,
                n_layer=1,
                vocab_size=VOCABULARY,
                n_ctx=99,
                n_positions=99,
                bos_token_id=BOS,
                eos_token_id=EOS,
            )
        ).eval(),
        tokenizer=tokenizer(64, bos=True),
        tokenizer_2=tokenizer(64),
        feature_extractor=ClapFeatureExtractor(feature_size=16, sampling_rate=16000),
        unet=unet.eval(),
        scheduler=d.DDIMScheduler(),
        vocoder=vivid(vocoder, vocoder.conv_post, gain=2000),
    )


def ace_step() -> d.AceStepPipeline:
    """ACE-Step: lyrics beside the prompt."""
    size = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    return d.AceStepPipeline(
        vae=_oobleck(),
        text_encoder=qwen3(),
        tokenizer=tokenizer(64),
        transformer=d.AceStepTransformer1DModel(
            hidden_size=WIDTH,
            intermediate_size=WIDTH,
            num_hidden_layers=2,
            in_channels=12,
            audio_acoustic_hidden_dim=4,
            **size,
        ).eval(),
        condition_encoder=AceStepConditionEncoder(
            hidden_size=WIDTH,
            intermediate_size=WIDTH,
            text_hidden_dim=WIDTH,
            timbre_hidden_dim=4,
            num_lyric_encoder_hidden_layers=1,
            num_timbre_encoder_hidden_layers=1,
            **size,
        ).eval(),
        scheduler=d.FlowMatchEulerDiscreteScheduler(num_train_timesteps=1, shift=1.0),
    )


def _oobleck() -> d.AutoencoderOobleck:
    """A VAE of stereo sound at 800 Hz, whose latents have 4 channels."""
    return d.AutoencoderOobleck(
        encoder_hidden_size=4,
        downsampling_ratios=[2, 4],
        channel_multiples=[1, 2],
        decoder_channels=4,
        decoder_input_channels=4,
        sampling_rate=800,
    ).eval()
