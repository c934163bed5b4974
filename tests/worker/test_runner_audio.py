"""Audio and latents have the same values as diffusers' own, at the pipeline's sample rate."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from omni_cli.config import VideoOutputTransport
from omni_cli.errors import MediaContractError
from omni_cli.media import Kind
from omni_cli.platforms.streamless import CpuPlatform
from omni_cli.worker.output.packer import Packer
from omni_cli.worker.pipeline.media_from_output import sample_rate
from omni_cli.writers import Frames, Latent, Sound, split_samples
from tests.factories import planned
from tests.worker.conftest import run

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

STEPS = {"num_inference_steps": 2, "guidance_scale": 1.0}
SIZE = {"height": 128, "width": 128, "num_frames": 9}
LTX = {**STEPS, "fps": 24.0, "extra": SIZE}
"""The size is an extra, which is not checked, because the tiny VAE makes smaller pictures than its pipeline expects."""
SOUND = {"num_inference_steps": 2, "extra": {"audio_end_in_s": 0.5}}


def received(media: Any) -> tuple[Any, ...]:
    """Return the samples of `media` as the parent unpacks them."""
    memory: list[bytearray] = []

    def allocate(nbytes: int) -> bytearray:
        memory.append(bytearray(nbytes))
        return memory[-1]

    packed = Packer(CpuPlatform(), VideoOutputTransport()).pack(media, None, allocate)
    return split_samples(packed.header, bytes(memory[-1]))


def called(pipeline: Any, seed: int, **keywords: Any) -> Any:
    with torch.inference_mode():
        return pipeline(**keywords, generator=torch.Generator("cpu").manual_seed(seed))


def test_an_audio_pipeline_gives_audio_at_the_rate_of_its_vae(
    runner_of: Callable[..., Any], plain_of: Callable[..., Any]
) -> None:
    (media,) = run(runner_of("stable_audio"), planned(seeds=(5, 6), prompt="rain", **SOUND))
    first, second = received(media)
    for sound, seed in ((first, 5), (second, 6)):
        expected = called(
            plain_of("stable_audio"), seed, prompt="rain", num_inference_steps=2, audio_end_in_s=0.5
        ).audios[0]
        assert isinstance(sound, Sound)
        assert sound.sample_rate == 800
        assert sound.array.shape == (2, 400)
        np.testing.assert_array_equal(sound.array, expected.float().numpy())
    assert first.array.std() > 0


def test_a_video_has_its_audio_track(runner_of: Callable[..., Any], plain_of: Callable[..., Any]) -> None:
    (media,) = run(runner_of("ltx_2"), planned(seeds=(5, 6), prompt="a drum", **LTX))
    assert media.spec.kind is Kind.VIDEO
    keywords = {**STEPS, **SIZE, "frame_rate": 24.0}
    for frames, seed in zip(received(media), (5, 6), strict=True):
        expected = called(plain_of("ltx_2"), seed, prompt="a drum", output_type="np", **keywords)
        assert isinstance(frames, Frames)
        np.testing.assert_array_equal(frames.array, (expected.frames[0] * 255).round().astype("uint8"))
        assert frames.audio is not None
        assert frames.audio.sample_rate == plain_of("ltx_2").vocoder.config.output_sampling_rate == 24000
        np.testing.assert_array_equal(frames.audio.array, expected.audio[0].float().numpy())


@pytest.mark.parametrize("name", ["stable_diffusion", "stable_audio", "ltx_2"])
def test_latents_equal_those_of_diffusers(
    name: str, runner_of: Callable[..., Any], plain_of: Callable[..., Any]
) -> None:
    still = {"height": 32, "width": 64, "num_inference_steps": 2}
    fields = {"ltx_2": LTX, "stable_audio": SOUND}.get(name, still)
    (media,) = run(runner_of(name), planned(prompt="x", format="latent", **fields))
    (latent,) = received(media)
    keywords = {key: value for key, value in fields.items() if key not in ("fps", "extra")} | fields.get("extra", {})
    keywords |= {"frame_rate": 24.0} if name == "ltx_2" else {}
    output = called(plain_of(name), 5, prompt="x", output_type="latent", **keywords)
    expected = next(
        value for key in ("frames", "images", "audios") if (value := getattr(output, key, None)) is not None
    )
    assert isinstance(latent, Latent)
    np.testing.assert_array_equal(latent.array, expected[0].float().numpy())
    if name == "ltx_2":
        assert latent.audio is not None
        np.testing.assert_array_equal(latent.audio, output.audio[0].float().numpy())


def test_latents_and_pictures_are_in_separate_calls(runner_of: Callable[..., Any]) -> None:
    small = {"height": 32, "width": 32, "num_inference_steps": 1, "prompt": "x"}
    medias = run(
        runner_of("stable_diffusion"),
        planned(seeds=(1,), format="latent", **small),
        planned(index=1, seeds=(2,), **small),
    )
    assert [media.spec.kind for media in medias] == [Kind.LATENT, Kind.IMAGE]


@pytest.mark.parametrize(
    ("pipeline", "rate"),
    [
        (SimpleNamespace(vocoder=SimpleNamespace(config=SimpleNamespace(sampling_rate=16000))), 16000),
        (SimpleNamespace(sample_rate=48000.0), 48000),
        (SimpleNamespace(audio_sample_rate=44100, vocoder=SimpleNamespace(config=SimpleNamespace())), 44100),
        (
            SimpleNamespace(
                audio_sampling_rate=16000, vocoder=SimpleNamespace(config=SimpleNamespace(output_sampling_rate=24000))
            ),
            24000,
        ),
        (SimpleNamespace(unet=SimpleNamespace(config=SimpleNamespace(sample_rate=22050))), 22050),
        (SimpleNamespace(), None),
    ],
)
def test_the_sample_rate_is_that_of_the_component_that_makes_the_waveform(pipeline: Any, rate: int | None) -> None:
    assert sample_rate(pipeline) == rate


def test_audio_without_a_known_sample_rate_is_an_error(
    runner_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omni_cli.worker.runner.sample_rate", lambda pipeline: None)
    with pytest.raises(MediaContractError, match="audio needs a sample rate"):
        run(runner_of("stable_audio"), planned(prompt="rain", **SOUND))
