"""Tiny audio pipelines."""

import diffusers as d
from diffusers.pipelines.stable_audio import StableAudioProjectionModel

from tests.tiny.parts import WIDTH, t5, tokenizer


def stable_audio() -> d.StableAudioPipeline:
    """Stable Audio: T5, seconds as conditions, a VAE that makes 2 channels of sound."""
    return d.StableAudioPipeline(
        vae=d.AutoencoderOobleck(
            encoder_hidden_size=4,
            downsampling_ratios=[2, 4],
            channel_multiples=[1, 2],
            decoder_channels=4,
            decoder_input_channels=4,
            sampling_rate=800,
        ).eval(),
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
