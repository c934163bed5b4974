"""npy, npz and safetensors: every value back, by the libraries that people read them with."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from omni_cli.config import OutputConfig
from omni_cli.errors import WriteError
from omni_cli.media import NORMALIZED, ColorModel, Kind
from omni_cli.writers.finalize import Frames, Latent, Sample, Sound, to_levels
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.write import write_output

SOUND = Sound(np.linspace(-1, 1, 42, dtype=np.float32).reshape(2, 21), 24000)


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(sample: Sample, form: str, metadata: Metadata | None = None) -> Path:
        options = OutputConfig()
        write_output(
            sample, tmp_path / f"x.{form}", name=f"x.{form}", format=form, fps=8.0, options=options, metadata=metadata
        )
        return tmp_path / f"x.{form}"

    return write


def tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    with safe_open(path, "numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


def test_a_clip_with_sound_comes_back_from_npz(
    clip: Callable[..., Frames], written: Callable[..., Path], metadata: Callable[..., Metadata]
) -> None:
    frames = replace(clip(33, 21), audio=SOUND)
    with np.load(written(frames, "npz", metadata(prompt="雨")), allow_pickle=False) as found:
        assert set(found) == {"frames", "audio", "fps", "sample_rate", "metadata"}
        np.testing.assert_array_equal(found["frames"], frames.array)
        np.testing.assert_array_equal(found["audio"], SOUND.array)
        assert (float(found["fps"]), int(found["sample_rate"])) == (8.0, 24000)
        assert json.loads(str(found["metadata"]))["request"]["prompt"] == "雨"


def test_a_clip_with_sound_comes_back_from_safetensors(
    clip: Callable[..., Frames], written: Callable[..., Path], metadata: Callable[..., Metadata]
) -> None:
    frames = replace(clip(33, 21), audio=SOUND)  # an odd number of bytes, so that floats behind them would be crooked
    found, facts = tensors(written(frames, "safetensors", metadata(prompt="雨")))
    np.testing.assert_array_equal(found["frames"], frames.array)
    np.testing.assert_array_equal(found["audio"], SOUND.array)
    assert (facts["fps"], facts["sample_rate"]) == ("8.0", "24000")
    assert json.loads(facts["metadata"])["request"]["prompt"] == "雨"


@pytest.mark.parametrize("form", ["npy", "npz", "safetensors"])
def test_an_image_has_three_axes_and_floats_become_levels(written: Callable[..., Path], form: str) -> None:
    array = np.random.default_rng(0).uniform(-1, 1, (1, 5, 7, 3)).astype(np.float32)
    path = written(Frames(array, Kind.IMAGE, ColorModel.RGB, NORMALIZED), form)
    if form == "safetensors":
        found = tensors(path)[0]["frames"]
    else:
        loaded = np.load(path)
        found = loaded if form == "npy" else loaded["frames"]
    np.testing.assert_array_equal(found, to_levels(array, NORMALIZED)[0])


@pytest.mark.parametrize("form", ["npy", "npz", "safetensors"])
def test_sound_alone_is_kept_as_it_is(written: Callable[..., Path], form: str) -> None:
    path = written(SOUND, form)
    found = tensors(path)[0]["audio"] if form == "safetensors" else np.load(path)
    np.testing.assert_array_equal(found["audio"] if form == "npz" else found, SOUND.array)


def test_latents_come_back_with_those_of_the_sound(
    written: Callable[..., Path], metadata: Callable[..., Metadata]
) -> None:
    latent = Latent(np.random.default_rng(0).normal(size=(4, 3, 5)).astype(np.float32), SOUND.array)
    found, facts = tensors(written(latent, "latent", metadata()))
    np.testing.assert_array_equal(found["latents"], latent.array)
    np.testing.assert_array_equal(found["audio_latents"], SOUND.array)
    assert json.loads(facts["metadata"])["model"]["pipeline"] == "WanPipeline"


def test_latents_and_pictures_are_not_mistaken_for_each_other(
    clip: Callable[..., Frames], written: Callable[..., Path]
) -> None:
    for sample, form in ((Latent(SOUND.array), "png"), (clip(), "latent")):
        with pytest.raises(WriteError, match="do not go together: latents need latent"):
            written(sample, form)
