"""The uint8 conversion gives diffusers' bytes for float32, and is at most one level off for narrower floats."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.video_processor import VideoProcessor
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_cli.config import VideoOutputTransport
from omni_cli.errors import MediaContractError
from omni_cli.media import LEVELS, NORMALIZED, UNIT, ColorModel, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.platforms.streamless import CpuPlatform
from omni_cli.worker.output import postprocess
from omni_cli.worker.output.output_check import STRICT, OutputPolicy
from omni_cli.worker.output.packer import Packer
from omni_cli.worker.output.postprocess import (
    BAND_ELEMENTS,
    frames_shape,
    header_of,
    wants_levels,
    write_floats,
    write_levels,
)

ON, OFF = VideoOutputTransport(), VideoOutputTransport(enable_device_postprocess=False)


def video(data: torch.Tensor, **facts: Any) -> Media:
    return Media(replace(MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, NORMALIZED), **facts), data)


def diffusers_levels(data: torch.Tensor) -> Any:
    floats = VideoProcessor().postprocess_video(data, output_type="np")
    return (floats * 255).round().astype("uint8")


def levels(media: Media, policy: OutputPolicy = STRICT) -> Any:
    """Return uint8 [N, T, H, W, C] of `media`, packed as the output thread packs it."""
    memory = bytearray()

    def allocate(nbytes: int) -> bytearray:
        memory.extend(bytes(nbytes))
        return memory

    packed = Packer(CpuPlatform(), ON, policy).pack(media, None, allocate)
    assert policy.keep_invalid or not packed.notes
    assert packed.header.dtype == "uint8"
    return np.frombuffer(memory, np.uint8).reshape(packed.header.shape)


@settings(max_examples=30, deadline=None)
@given(
    shape=st.tuples(*(st.integers(1, 3), st.integers(1, 4), st.integers(1, 19), st.integers(1, 23))),
    seed=st.integers(0, 2**32),
)
def test_float32_gives_the_bytes_of_diffusers(shape: tuple[int, int, int, int], seed: int) -> None:
    samples, frames, height, width = shape
    data = torch.randn(samples, 3, frames, height, width, generator=torch.Generator().manual_seed(seed))
    np.testing.assert_array_equal(levels(video(data)), diffusers_levels(data))


def test_every_level_every_rounding_edge_and_out_of_range_values_match_diffusers() -> None:
    exact = torch.arange(256, dtype=torch.float32) / 127.5 - 1
    halves = (torch.arange(256, dtype=torch.float32) + 0.5) / 127.5 - 1
    around = [torch.nextafter(halves, torch.full_like(halves, side)) for side in (-9.0, 9.0)]
    far = torch.tensor([3e38, -3e38, 3e38, 1e30, -1e30, 0.0, -0.0, 1e-40, 2.0])  # finite, though their sum is not
    row = torch.cat([exact, halves, *around, far])
    data = row.view(1, 1, 1, 1, -1).repeat(1, 3, 1, 2, 1)
    result = levels(video(data))
    np.testing.assert_array_equal(result, diffusers_levels(data))
    np.testing.assert_array_equal(result[0, 0, 0, :256, 0], np.arange(256))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_floats_differ_from_diffusers_by_at_most_one_level(dtype: torch.dtype) -> None:
    data = (torch.rand(1, 3, 3, 40, 40, generator=torch.Generator().manual_seed(0)) * 2.4 - 1.2).to(dtype)
    difference = levels(video(data)).astype(int) - diffusers_levels(data).astype(int)
    assert np.abs(difference).max() == 1  # widening before denormalizing rounds differently


def test_a_frame_larger_than_a_band_is_converted_whole() -> None:
    width = BAND_ELEMENTS // 3 // 4
    data = torch.randn(1, 3, 1, 11, width, generator=torch.Generator().manual_seed(0))  # bands of 4, 4 and 3 rows
    np.testing.assert_array_equal(levels(video(data)), diffusers_levels(data))


def test_temporaries_are_no_larger_than_one_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = torch.empty

    def counting(*shape: Any, **more: Any) -> torch.Tensor:
        tensor = real(*shape, **more)
        sizes.append(tensor.numel())
        return tensor

    media = video(torch.zeros(2, 3, 8, 64, 64))
    out = real(frames_shape(media), dtype=torch.uint8)
    monkeypatch.setattr(postprocess.torch, "empty", counting)
    write_levels(media, out)
    assert max(sizes) == 3 * 64 * 64


@pytest.mark.parametrize("layout", [Layout.BCTHW, Layout.BTCHW, Layout.BTHWC, Layout.BCHW, Layout.BHWC, Layout.THWC])
def test_every_layout_is_written_as_nthwc(layout: Layout) -> None:
    sizes = {"B": 2, "C": 3, "T": 4, "H": 5, "W": 6}
    data = torch.randn([sizes[axis] for axis in layout], generator=torch.Generator().manual_seed(0))
    kind = Kind.VIDEO if "T" in layout else Kind.IMAGE
    media = Media(MediaSpec(kind, layout, Encoding.FLOAT, NORMALIZED), data)
    shape = (2 if "B" in layout else 1, 4 if "T" in layout else 1, 5, 6, 3)
    assert frames_shape(media) == shape
    source = [axis for axis in "BTHWC" if axis in layout]
    expected = data.permute([layout.index(axis) for axis in source]).reshape(shape)
    np.testing.assert_array_equal(levels(media), ((expected * 0.5 + 0.5).clamp(0, 1) * 255).round().to(torch.uint8))
    floats = torch.empty(shape)
    assert write_floats(media, floats) == ()
    assert torch.equal(floats, expected)


def test_a_slice_of_a_batch_is_converted() -> None:
    data = torch.randn(4, 3, 2, 6, 8, generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(levels(video(data[2:3])), diffusers_levels(data)[2:3])


@pytest.mark.parametrize(("channels", "color"), [(1, ColorModel.GRAY), (4, ColorModel.RGBA)])
def test_gray_and_rgba_are_converted(channels: int, color: ColorModel) -> None:
    data = torch.randn(1, channels, 2, 6, 8, generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(levels(video(data, color=color)), diffusers_levels(data))


@pytest.mark.parametrize(("value_range", "scale"), [(UNIT, 1.0), ((0.0, 4.0), 0.25)])
def test_other_value_ranges_are_scaled_to_levels(value_range: tuple[float, float], scale: float) -> None:
    data = torch.rand(1, 3, 1, 6, 8, generator=torch.Generator().manual_seed(0)) * 5 - 0.5
    expected = ((data * scale).clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 4, 1)
    np.testing.assert_array_equal(levels(video(data, value_range=value_range)), expected)


def test_floats_travel_when_switched_off_consumed_or_not_pictures() -> None:
    media = video(torch.zeros(1, 3, 1, 4, 4))
    spec = MediaSpec(Kind.AUDIO, Layout.BCS, Encoding.FLOAT, NORMALIZED, ColorModel.NONE, sample_rate=8)
    audio = Media(spec, torch.zeros(1, 2, 9))
    assert wants_levels(media, ON)
    assert not wants_levels(media, OFF)
    assert not wants_levels(video(media.data, pending=("interpolation",)), ON)
    assert not wants_levels(audio, ON)
    assert frames_shape(audio) == (1, 2, 9)


def test_malformed_media_fails_before_transport() -> None:
    with pytest.raises(MediaContractError, match="needs 5 axes"):
        wants_levels(video(torch.zeros(3, 1, 4, 4)), ON)


def test_the_header_describes_the_packed_bytes() -> None:
    media = video(torch.zeros(1, 3, 2, 4, 6))
    uint8, floats = (header_of(media, frames_shape(media), dtype) for dtype in (torch.uint8, torch.float32))
    assert (uint8.kind, uint8.dtype, uint8.shape, uint8.value_range) == (Kind.VIDEO, "uint8", (1, 2, 4, 6, 3), LEVELS)
    assert (floats.dtype, floats.value_range) == ("float32", NORMALIZED)


@pytest.mark.parametrize(
    "out",
    [
        torch.empty(1, 2, 4, 6, 3),
        torch.empty(1, 2, 6, 4, 3, dtype=torch.uint8),
        torch.empty(1, 2, 4, 3, 6, dtype=torch.uint8).transpose(3, 4),
    ],
    ids=["dtype", "shape", "strides"],
)
def test_a_buffer_that_does_not_match_the_header_raises(out: torch.Tensor) -> None:
    with pytest.raises(MediaContractError, match=r"buffer for a video must be contiguous torch\.uint8"):
        write_levels(video(torch.zeros(1, 3, 2, 4, 6)), out)
