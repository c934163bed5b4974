"""Frames between frames: their number, their values, the frames of the pipeline untouched, and modules that do not fit."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from omni_cli.config import VideoOutputTransport
from omni_cli.errors import MediaContractError, ModelLoadError, NonFiniteOutput
from omni_cli.media import NORMALIZED, UNIT, Encoding, Kind, Layout, Media, MediaSpec, check
from omni_cli.platforms.cpu import CpuPlatform
from omni_cli.request import GenerationRequest, PlannedRequest
from omni_cli.worker.collect import for_request
from omni_cli.worker.interpolate import Interpolator
from omni_cli.worker.packing import Packer
from omni_cli.worker.postprocess import frames_shape, write_floats, write_levels

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")

SPEC = MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, NORMALIZED)


class Nearest(torch.nn.Module):
    """The nearer frame, with the time it was asked for in the corner."""

    def forward(self, first: torch.Tensor, second: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        made = (first if bool(t < 0.5) else second).clone()
        made[0, 0, 0, 0] = t[0, 0]
        return made


class FloatTime(torch.nn.Module):
    """As RIFE is often exported: the time is a plain number."""

    def forward(self, first: torch.Tensor, second: torch.Tensor, t: float) -> torch.Tensor:
        return first * (1 - t) + second * t


class Half(torch.nn.Module):
    def forward(self, first: torch.Tensor, second: torch.Tensor, t: float) -> torch.Tensor:
        return first[..., ::2]


class Two(torch.nn.Module):
    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return first


class Spoils(torch.nn.Module):
    def forward(self, first: torch.Tensor, second: torch.Tensor, t: float) -> torch.Tensor:
        return first / (1 - first.max().ceil())  # black is well, anything brighter is not


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


def levels(media: Media, between: Interpolator) -> np.ndarray:
    out = torch.empty(frames_shape(media), dtype=torch.uint8)
    write_levels(media, out, between=between)
    return out.numpy()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_pipelines_own_frames_pass_untouched_and_blends_stand_between(dtype: torch.dtype) -> None:
    media = clip(dtype=dtype)
    made = levels(media, Interpolator())
    own = levels(replace(media, spec=replace(media.spec, interpolate=1)), Interpolator())
    assert made.shape == (2, 9, 4, 6, 3)
    np.testing.assert_array_equal(made[:, ::4], own)
    wide = media.data.float()
    for step in (1, 2, 3):
        blend = wide[:, :, :-1] + (wide[:, :, 1:] - wide[:, :, :-1]) * (step / 4)
        expected = ((blend * 0.5 + 0.5) * 255).permute(0, 2, 3, 4, 1).numpy()
        assert np.abs(made[:, step::4][:, :2] - expected).max() <= 0.501


def test_floats_get_the_same_frames() -> None:
    media = clip()
    out = torch.empty(frames_shape(media))
    write_floats(media, out)
    floats = ((out * 0.5 + 0.5).clamp(0, 1) * 255).round().to(torch.uint8).numpy()
    np.testing.assert_array_equal(floats, levels(media, Interpolator()))


def test_a_module_sees_unit_floats_and_every_time(saved: Callable[..., str]) -> None:
    media = clip()
    between = Interpolator.load(saved(Nearest), "cpu")
    frames = list(between.frames(media.data[0].transpose(0, 1), 4, NORMALIZED))
    assert [round(float(frame[0, 0, 0] * 0.5 + 0.5), 4) for frame in frames[1:4]] == [0.25, 0.5, 0.75]
    torch.testing.assert_close(frames[1][1], media.data[0, 1, 0])
    torch.testing.assert_close(frames[3][1], media.data[0, 1, 1])


def test_a_module_whose_time_is_a_number_makes_the_blend(saved: Callable[..., str]) -> None:
    media = clip()
    module = levels(media, Interpolator.load(saved(FloatTime), "cpu"))
    assert np.abs(module.astype(int) - levels(media, Interpolator())).max() <= 1


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (
            Half,
            r"fails on two black frames: the interpolator made torch.float32 of shape \[1, 3, 64, 32\]; it must make",
        ),
        (Two, "its forward takes 2 arguments; it must take frame0, frame1, t"),
    ],
)
def test_a_module_that_does_not_fit_is_refused_when_it_is_loaded(
    saved: Callable[..., str], module: type[torch.nn.Module], reason: str
) -> None:
    with pytest.raises(ModelLoadError, match=reason):
        Interpolator.load(saved(module), "cpu")


def test_a_file_that_is_no_module_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(b"not a module")
    for name in ("x.pt", "gone.pt"):
        with pytest.raises(ModelLoadError, match=rf"--interpolator '.*{name}' is no TorchScript file"):
            Interpolator.load(str(tmp_path / name), "cpu")


def test_a_module_that_makes_nan_fails_the_request_not_the_file(saved: Callable[..., str]) -> None:
    media = clip()
    with pytest.raises(NonFiniteOutput, match="the interpolator made a frame that holds NaN or infinity"):
        levels(media, Interpolator.load(saved(Spoils), "cpu"))


def test_interpolation_is_a_float_consumer_of_the_contract() -> None:
    frames = torch.zeros(1, 3, 2, 4, 4, dtype=torch.uint8)
    with pytest.raises(MediaContractError, match="uint8 although float consumers are pending: frame interpolation"):
        check(Media(replace(SPEC, encoding=Encoding.UINT8, value_range=(0.0, 255.0), interpolate=2), frames))
    with pytest.raises(MediaContractError, match="can be made of a video alone"):
        check(Media(MediaSpec(Kind.IMAGE, Layout.BCHW, Encoding.FLOAT, UNIT, interpolate=2), torch.zeros(1, 3, 4, 4)))


def test_a_request_brings_its_consumers_and_an_image_has_no_frames_between() -> None:
    wish = PlannedRequest(
        request=GenerationRequest(id="a", interpolate=3),
        index=0,
        seeds=(1,),
        files=("a",),
        fingerprint="",
        floats_for="16-bit PNG",
    )
    still = Media(MediaSpec(Kind.IMAGE, Layout.BCHW, Encoding.FLOAT, UNIT), torch.zeros(1, 3, 4, 4))
    assert for_request(still, wish).spec.float_consumers == ("16-bit PNG",)
    video = for_request(Media(SPEC, torch.zeros(1, 3, 2, 4, 4)), wish)
    assert video.spec.float_consumers == ("frame interpolation", "16-bit PNG")
    memory = bytearray()

    def allocate(nbytes: int) -> bytearray:
        memory.extend(bytes(nbytes))
        return memory

    packed = Packer(CpuPlatform(), VideoOutputTransport()).pack(video, None, allocate)
    assert (packed.header.dtype, packed.header.shape, packed.header.interpolated) == ("float32", (1, 4, 4, 4, 3), 3)
