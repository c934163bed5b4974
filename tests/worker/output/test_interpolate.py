"""Frame interpolation: number and values of the added frames, unchanged pipeline frames, modules that do not fit."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from omni_cli.config import VideoOutputTransport
from omni_cli.errors import ModelLoadError, NonFiniteOutput
from omni_cli.media import NORMALIZED, UNIT, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.platforms.streamless import CpuPlatform
from omni_cli.worker.output.interpolate import Interpolator
from omni_cli.worker.output.packer import Packer
from omni_cli.worker.output.postprocess import frames_shape, write_floats, write_levels
from omni_cli.worker.pipeline.media_from_output import add_float_consumers
from tests.factories import planned

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")

SPEC = MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, NORMALIZED)


class Nearest(torch.nn.Module):
    """Returns the nearer frame with the requested time in its corner."""

    def forward(self, first: torch.Tensor, second: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        result = (first if bool(t < 0.5) else second).clone()
        result[0, 0, 0, 0] = t[0, 0]
        return result


class FloatTime(torch.nn.Module):
    """Blends; takes the time as a float, as RIFE is often exported."""

    def forward(self, first: torch.Tensor, second: torch.Tensor, t: float) -> torch.Tensor:
        return first * (1 - t) + second * t


class HalfWidth(torch.nn.Module):
    def forward(self, first: torch.Tensor, second: torch.Tensor, t: float) -> torch.Tensor:
        return first[..., ::2]


class NoTime(torch.nn.Module):
    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return first


class NanIfBright(torch.nn.Module):
    def forward(self, first: torch.Tensor, second: torch.Tensor, t: float) -> torch.Tensor:
        return first / (1 - first.max().ceil())  # NaN unless black


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[type[torch.nn.Module]], str]:
    """Path of a TorchScript file of a module."""

    def save(module: type[torch.nn.Module]) -> str:
        path = str(tmp_path / f"{module.__name__}.pt")
        torch.jit.script(module()).save(path)
        return path

    return save


def clip(seed: int = 0, frames: int = 3, dtype: torch.dtype = torch.float32) -> Media:
    data = torch.rand(2, 3, frames, 4, 6, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return Media(replace(SPEC, interpolate=4), data.to(dtype))


def levels(media: Media, interpolator: Interpolator) -> np.ndarray:
    out = torch.empty(frames_shape(media), dtype=torch.uint8)
    write_levels(media, out, interpolator=interpolator)
    return out.numpy()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_frames_of_the_pipeline_pass_unchanged_with_blends_between(dtype: torch.dtype) -> None:
    media = clip(dtype=dtype)
    result = levels(media, Interpolator())
    originals = levels(replace(media, spec=replace(media.spec, interpolate=1)), Interpolator())
    assert result.shape == (2, 9, 4, 6, 3)
    np.testing.assert_array_equal(result[:, ::4], originals)
    wide = media.data.float()
    for step in (1, 2, 3):
        blend = wide[:, :, :-1] + (wide[:, :, 1:] - wide[:, :, :-1]) * (step / 4)
        expected = ((blend * 0.5 + 0.5) * 255).permute(0, 2, 3, 4, 1).numpy()
        assert np.abs(result[:, step::4][:, :2] - expected).max() <= 0.501


def test_float_output_has_the_same_added_frames() -> None:
    media = clip()
    out = torch.empty(frames_shape(media))
    write_floats(media, out)
    floats = ((out * 0.5 + 0.5).clamp(0, 1) * 255).round().to(torch.uint8).numpy()
    np.testing.assert_array_equal(floats, levels(media, Interpolator()))


def test_a_module_is_called_with_floats_in_0_1_at_every_time(saved: Callable[..., str]) -> None:
    media = clip()
    interpolator = Interpolator.load(saved(Nearest), "cpu")
    frames = list(interpolator.frames(media.data[0].transpose(0, 1), 4, NORMALIZED))
    assert [round(float(frame[0, 0, 0] * 0.5 + 0.5), 4) for frame in frames[1:4]] == [0.25, 0.5, 0.75]
    torch.testing.assert_close(frames[1][1], media.data[0, 1, 0])
    torch.testing.assert_close(frames[3][1], media.data[0, 1, 1])


def test_a_module_may_take_the_time_as_a_float(saved: Callable[..., str]) -> None:
    media = clip()
    module = levels(media, Interpolator.load(saved(FloatTime), "cpu"))
    assert np.abs(module.astype(int) - levels(media, Interpolator())).max() <= 1


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (
            HalfWidth,
            r"fails on two black frames: the interpolator returned torch.float32 of shape \[1, 3, 64, 32\]",
        ),
        (NoTime, "its forward must take frame0, frame1, t; it takes 2 arguments"),
    ],
)
def test_a_module_that_does_not_fit_fails_at_load(
    saved: Callable[..., str], module: type[torch.nn.Module], reason: str
) -> None:
    with pytest.raises(ModelLoadError, match=reason):
        Interpolator.load(saved(module), "cpu")


def test_a_file_that_is_not_torchscript_fails_at_load(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(b"not a module")
    for name in ("x.pt", "gone.pt"):
        with pytest.raises(ModelLoadError, match=rf"--interpolator '.*{name}' cannot be loaded as a TorchScript file"):
            Interpolator.load(str(tmp_path / name), "cpu")


def test_a_module_that_returns_nan_fails_the_request(saved: Callable[..., str]) -> None:
    media = clip()
    with pytest.raises(NonFiniteOutput, match="the interpolator returned a frame that holds NaN or infinity"):
        levels(media, Interpolator.load(saved(NanIfBright), "cpu"))


def test_add_float_consumers_adds_the_float_consumers_of_the_request() -> None:
    request = planned(interpolate=3, floats_for="16-bit PNG")
    still = Media(MediaSpec(Kind.IMAGE, Layout.BCHW, Encoding.FLOAT, UNIT), torch.zeros(1, 3, 4, 4))
    assert add_float_consumers(still, request).spec.float_consumers == ("16-bit PNG",)
    video = add_float_consumers(Media(SPEC, torch.zeros(1, 3, 2, 4, 4)), request)
    assert video.spec.float_consumers == ("frame interpolation", "16-bit PNG")
    memory = bytearray()

    def allocate(nbytes: int) -> bytearray:
        memory.extend(bytes(nbytes))
        return memory

    packed = Packer(CpuPlatform(), VideoOutputTransport()).pack(video, None, allocate)
    assert (packed.header.dtype, packed.header.shape, packed.header.interpolated) == ("float32", (1, 4, 4, 4, 3), 3)
