"""npy, npz and safetensors files, read by the usual libraries."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from omni_cli.config import OutputConfig
from omni_cli.errors import NonFiniteOutput, WriteError
from omni_cli.media import NORMALIZED, ColorModel, Kind
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.output_target import OutputTarget
from omni_cli.writers.samples import Frames, Latent, Sound, to_uint8
from omni_cli.writers.write import write_output

SOUND = Sound(np.linspace(-1, 1, 42, dtype=np.float32).reshape(2, 21), 24000)


def tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    with safe_open(path, "numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


def test_npz_holds_a_clip_with_its_sound_and_metadata(
    clip: Callable[..., Frames], written: Callable[..., Path], metadata: Callable[..., Metadata]
) -> None:
    frames = replace(clip(33, 21), audio=SOUND)
    with np.load(written(frames, "npz", metadata(prompt="雨")), allow_pickle=False) as arrays:
        assert set(arrays) == {"frames", "audio", "fps", "sample_rate", "metadata"}
        np.testing.assert_array_equal(arrays["frames"], frames.array)
        np.testing.assert_array_equal(arrays["audio"], SOUND.array)
        assert (float(arrays["fps"]), int(arrays["sample_rate"])) == (8.0, 24000)
        assert json.loads(str(arrays["metadata"]))["request"]["prompt"] == "雨"


def test_safetensors_holds_a_clip_with_its_sound_and_metadata(
    clip: Callable[..., Frames], written: Callable[..., Path], metadata: Callable[..., Metadata]
) -> None:
    frames = replace(clip(33, 21), audio=SOUND)  # an odd number of bytes: floats behind them would be unaligned
    arrays, header = tensors(written(frames, "safetensors", metadata(prompt="雨")))
    np.testing.assert_array_equal(arrays["frames"], frames.array)
    np.testing.assert_array_equal(arrays["audio"], SOUND.array)
    assert (header["fps"], header["sample_rate"]) == ("8.0", "24000")
    assert json.loads(header["metadata"])["request"]["prompt"] == "雨"


@pytest.mark.parametrize("form", ["npy", "npz", "safetensors"])
def test_float_arrays_hold_what_diffusers_gives_as_np(tmp_path: Path, form: str) -> None:
    array = np.random.default_rng(0).uniform(-1.2, 1.2, (3, 5, 7, 3)).astype(np.float32)
    expected = (torch.from_numpy(array) * 0.5 + 0.5).clamp(0, 1).numpy()  # VaeImageProcessor.denormalize
    for number, (values, frames) in enumerate(
        [
            (expected, Frames(array, Kind.VIDEO, ColorModel.RGB, NORMALIZED)),
            (
                (np.arange(256, dtype=np.float32) / 255).reshape(1, 16, 16, 1),
                Frames(np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1), Kind.VIDEO, ColorModel.GRAY),
            ),
        ]
    ):
        name = f"{number}.{form}"
        write_output(frames, OutputTarget(tmp_path, name, form, 8.0, OutputConfig(float_arrays=True)))
        held = tensors(tmp_path / name)[0] if form == "safetensors" else np.load(tmp_path / name)
        written = held if form == "npy" else held["frames"]
        assert written.dtype == np.float32
        np.testing.assert_array_equal(written, values)
    with pytest.raises(NonFiniteOutput):
        write_output(
            replace(frames, array=array * np.nan),
            OutputTarget(tmp_path, name, form, 8.0, OutputConfig(float_arrays=True)),
        )


@pytest.mark.parametrize("form", ["npy", "npz", "safetensors"])
def test_image_has_three_axes_and_floats_become_levels(written: Callable[..., Path], form: str) -> None:
    array = np.random.default_rng(0).uniform(-1, 1, (1, 5, 7, 3)).astype(np.float32)
    path = written(Frames(array, Kind.IMAGE, ColorModel.RGB, NORMALIZED), form)
    if form == "safetensors":
        frames = tensors(path)[0]["frames"]
    else:
        loaded = np.load(path)
        frames = loaded if form == "npy" else loaded["frames"]
    np.testing.assert_array_equal(frames, to_uint8(array, NORMALIZED)[0])


@pytest.mark.parametrize("form", ["npy", "npz", "safetensors"])
def test_sound_alone_is_exact(written: Callable[..., Path], form: str) -> None:
    path = written(SOUND, form)
    arrays = tensors(path)[0]["audio"] if form == "safetensors" else np.load(path)
    np.testing.assert_array_equal(arrays["audio"] if form == "npz" else arrays, SOUND.array)


def test_latents_are_exact_with_those_of_the_sound(
    written: Callable[..., Path], metadata: Callable[..., Metadata]
) -> None:
    latent = Latent(np.random.default_rng(0).normal(size=(4, 3, 5)).astype(np.float32), SOUND.array)
    arrays, header = tensors(written(latent, "latent", metadata()))
    np.testing.assert_array_equal(arrays["latents"], latent.array)
    np.testing.assert_array_equal(arrays["audio_latents"], SOUND.array)
    assert json.loads(header["metadata"])["model"]["pipeline"] == "WanPipeline"


def test_latents_need_the_latent_format_and_pictures_another(
    clip: Callable[..., Frames], written: Callable[..., Path]
) -> None:
    for sample, form in ((Latent(SOUND.array), "png"), (clip(), "latent")):
        with pytest.raises(
            WriteError, match="does not match the pipeline's output: latents, and only they, need latent"
        ):
            written(sample, form)


def test_npy_is_exact_and_has_a_time_axis_for_video_only(
    clip: Callable[..., Frames], still: Callable[..., Frames], written: Callable[..., Path]
) -> None:
    for frames in (clip(65, 63, 4), clip(8, 8, 1), clip(8, 8, 3, 4)):
        array = np.load(written(frames, "npy"))
        assert array.dtype == np.uint8
        assert np.array_equal(array, frames.array)
    for frames in (still(), still(channels=1)):
        assert np.array_equal(np.load(written(frames, "npy")), frames.array[0])
