"""Kinds of output, from a runner's tensors to files and rows: sound, interpolation, frames, deep colour."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import msgspec
import numpy as np
import pytest
import torch

from omni_cli.api import OmniGen
from omni_cli.config import EngineConfig, OutputConfig, RunConfig, VideoOutputTransport
from omni_cli.errors import ModelLoadError, PromptFileError, UsageError
from omni_cli.request import Result

CLIP = {"id": "clip", "prompt": "x", "num_frames": 5, "height": 32, "width": 32, "seed": 64, "fps": 8.0}
Run = Callable[..., list[Result]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Render requests in this process with a runner that makes sound; return rows in completion order."""

    def render(*requests: dict[str, Any], engine: dict[str, Any] | None = None, **output: Any) -> list[Result]:
        config = RunConfig(
            engine=EngineConfig(executor="inline", runner="tests.runners:Sounding", **(engine or {})),
            output=OutputConfig(output_dir=str(tmp_path), **output),
        )
        with OmniGen(config=config, output_dir=str(tmp_path)) as gen:
            return list(gen.generate(list(requests)))

    return render


def brightness(path: Path) -> list[float]:
    """Return the mean luma of each frame."""
    with av.open(str(path)) as container:
        return [float(frame.to_ndarray(format="gray16le").mean()) for frame in container.decode(video=0)]


def test_a_clip_with_sound_is_one_file_whose_row_describes_both_streams(run: Run, tmp_path: Path) -> None:
    (row,) = run(CLIP)
    (file,) = row.files
    assert (file.sample_rate, file.samples, file.channels, file.frames, file.fps) == (8000, 8000, 2, 5, 8.0)
    with av.open(str(tmp_path / "clip.mp4")) as container:
        assert {stream.type for stream in container.streams} == {"video", "audio"}
    assert run(CLIP) == []


def test_rows_of_silent_files_have_no_sound_fields(run: Run, tmp_path: Path) -> None:
    (row,) = run(CLIP | {"format": "gif"})
    assert row.notes == ("the sound is left out: format gif has no place for it",)
    assert not {"sample_rate", "samples", "channels"} & msgspec.to_builtins(row.files[0]).keys()
    assert b"sample_rate" not in (tmp_path / "manifest.jsonl").read_bytes()


def test_every_output_of_a_request_has_its_own_sound(run: Run, tmp_path: Path) -> None:
    (row,) = run(CLIP | {"num_outputs": 2, "format": "npz"})
    for file, seed in zip(row.files, (64, 65), strict=True):
        assert np.unique(np.load(tmp_path / file.path)["audio"]).tolist() == [seed / 256]


@pytest.mark.parametrize("transport", [True, False])
def test_interpolation_multiplies_frames_and_frame_rate(run: Run, tmp_path: Path, transport: bool) -> None:
    engine = {"transport": VideoOutputTransport(enable_device_postprocess=transport)}
    (row,) = run(CLIP | {"interpolate": 3, "format": "npy"}, engine=engine)
    assert (row.files[0].frames, row.files[0].fps, row.request.fps) == (13, 24.0, 8.0)
    values = np.load(tmp_path / "clip.npy")[:, 0, 0, 0]
    assert values.dtype == (np.uint8 if transport else np.float32)
    levels = np.round(values * (1 if transport else 255)).astype(int)
    assert levels.shape == (13,)
    own = levels[::3]
    for step in (1, 2):
        assert np.abs(levels[step::3] - (own[:-1] + (own[1:] - own[:-1]) * step / 3)).max() <= 1
    assert len(np.unique(levels)) > 5


def test_interpolation_as_a_default_applies_to_clips_and_not_to_images(run: Run, tmp_path: Path) -> None:
    config = RunConfig(
        engine=EngineConfig(executor="inline", runner="tests.runners:Sounding"),
        output=OutputConfig(output_dir=str(tmp_path)),
        defaults=msgspec.convert({"interpolate": 2}, type(RunConfig().defaults)),
    )
    still = {"id": "still", "prompt": "x", "num_frames": 1, "height": 32, "width": 32}
    with OmniGen(config=config, output_dir=str(tmp_path)) as gen:
        rows = {row.id: row for row in gen.generate([CLIP, still])}
    assert (rows["clip"].files[0].frames, rows["clip"].files[0].fps) == (9, 16.0)
    assert len(brightness(tmp_path / "clip.mp4")) == 9
    assert (rows["still"].files[0].frames, rows["still"].request.interpolate) == (1, None)
    with pytest.raises(PromptFileError, match="interpolate: there are no frames in image output; leave it out"):
        run(still | {"interpolate": 2})


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_the_interpolator_is_used_and_another_one_changes_the_fingerprint(run: Run, tmp_path: Path) -> None:
    class First(torch.nn.Module):
        def forward(self, first: torch.Tensor, second: torch.Tensor, t: float) -> torch.Tensor:
            return first

    class Second(torch.nn.Module):
        def forward(self, first: torch.Tensor, second: torch.Tensor, t: float) -> torch.Tensor:
            return second

    request = CLIP | {"interpolate": 2, "format": "npy"}
    path = tmp_path / "between.pt"
    for module, nearer in ((First, 0), (Second, 2)):
        torch.jit.script(module()).save(str(path))
        (row,) = run(request, changed="replace", engine={"interpolator": str(path)})
        levels = np.load(tmp_path / row.files[0].path)
        np.testing.assert_array_equal(levels[1], levels[nearer])
        assert run(request, engine={"interpolator": str(path)}) == []
    assert run(CLIP | {"id": "other", "format": "npy"}) != []
    assert run(CLIP | {"id": "other", "format": "npy"}, engine={"interpolator": str(path)}) == []
    path.write_bytes(b"")
    with pytest.raises(ModelLoadError, match="cannot be loaded as a TorchScript file"):
        run(CLIP | {"id": "third"}, engine={"interpolator": str(path)})


def test_a_folder_of_frames_is_checked_file_by_file_on_resume(run: Run, tmp_path: Path) -> None:
    request = CLIP | {"format": "frames"}
    (row,) = run(request)
    assert (row.files[0].path, row.files[0].frames, row.files[0].samples) == ("clip", 5, 8000)
    assert run(request) == []
    (tmp_path / "clip/000003.png").unlink()
    assert len(run(request)) == 1
    assert (tmp_path / "clip/000003.png").exists()
    (tmp_path / "clip/000001.png").write_bytes((tmp_path / "clip/000000.png").read_bytes())
    assert len(run(request)) == 1
    (tmp_path / "clip/mine.txt").write_text("mine")
    with pytest.raises(
        PromptFileError, match=r'the file "clip" is a folder there already, of other things than frames'
    ):
        run(request)


def test_png16_levels_come_from_the_float_output(run: Run, tmp_path: Path) -> None:
    still = {"id": "still", "prompt": "x", "num_frames": 1, "height": 32, "width": 32, "seed": 1}
    run(still | {"format": "png16"})
    with av.open(str(tmp_path / "still.png")) as container:
        level = next(container.decode(video=0)).to_ndarray()[0, 0, 0]
    unit = (1 / 127.5 - 1) * 0.5 * 0.5 + 0.5
    assert abs(int(level) - unit * 65535) <= 1
    assert int(level) % 257 != 0  # no level of 8 bits


def test_a_10_bit_codec_gets_floats_and_changes_the_fingerprint(run: Run, tmp_path: Path) -> None:
    request = CLIP | {"format": "mkv", "width": 96}
    (plain,) = run(request)
    (deep,) = run(request, codec="ffv1", changed="replace")
    assert plain.fingerprint != deep.fingerprint
    values = brightness(tmp_path / "clip.mkv")
    steps = np.diff(values)
    # A step is a hundredth of luma's limited range, 219 x 256 / 100 of 65535; with 8 bits it would be 2 or 3 of 256.
    assert steps == pytest.approx(np.full(4, steps.mean()), abs=40)


@pytest.mark.parametrize(
    ("fields", "output", "problem"),
    [
        ({"format": "webm"}, {"codec": "h264"}, "format: format webm cannot hold h264; it holds vp9, av1"),
        ({"width": 33}, {"pix_fmt": "yuv420p"}, "width: h264 in yuv420p needs even sides, and this is 33x32"),
        ({}, {"codec": "h265"}, "height: h265 needs a width of 65 pixels or more"),
        ({"interpolate": 8, "format": "gif"}, {}, "fps: format gif takes fps above 0 and up to 50, not 64"),
        ({"format": "latent", "interpolate": 2}, {}, "interpolate: there are no frames in latents"),
        ({"format": "wav"}, {}, "format: wav cannot hold video output; formats for video: webp, avif, mp4"),
        ({"interpolate": 65}, {}, "interpolate: expected a whole number from 1 to 64, got 65"),
    ],
)
def test_impossible_outputs_are_refused_before_anything_is_loaded(
    run: Run, fields: dict[str, Any], output: dict[str, Any], problem: str
) -> None:
    with pytest.raises(PromptFileError) as caught:
        run(CLIP | fields, **output)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ({"codec": "h266"}, "unknown codec 'h266'"),
        ({"codec": "h264", "crf": 60}, "--crf 60: h264 takes 0 to 51"),
        ({"pix_fmt": "rgb24"}, "unknown --pix-fmt 'rgb24'; there are: yuv420p"),
        ({"encoder_preset": "warp"}, "unknown encoder preset 'warp'"),
    ],
)
def test_a_setting_that_is_wrong_for_every_request_is_reported_once(
    run: Run, output: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        run(CLIP, **output)
