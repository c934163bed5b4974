"""The uint8 conversion: diffusers' bytes for float32, one level for narrower floats, any layout, any range."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.video_processor import VideoProcessor
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_cli.config import VideoOutputTransport
from omni_cli.errors import ConstantOutput, MediaContractError, NonFiniteOutput
from omni_cli.media import LEVELS, NORMALIZED, UNIT, ColorModel, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.worker import postprocess
from omni_cli.worker.postprocess import (
    BAND_ELEMENTS,
    frames_shape,
    header_of,
    prepare,
    wants_levels,
    write_floats,
    write_levels,
)
from omni_cli.worker.validity import STRICT, Validity

ON, OFF = VideoOutputTransport(), VideoOutputTransport(enable_device_postprocess=False)


def video(data: torch.Tensor, **facts: Any) -> Media:
    return Media(replace(MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, NORMALIZED), **facts), data)


def by_diffusers(data: torch.Tensor) -> Any:
    floats = VideoProcessor().postprocess_video(data, output_type="np")
    return (floats * 255).round().astype("uint8")


def levels(media: Media, policy: Validity = STRICT) -> Any:
    out = torch.empty(frames_shape(media), dtype=torch.uint8)
    notes = write_levels(media, out, policy)
    assert policy.keep_invalid or not notes
    return out.numpy()


@settings(max_examples=30, deadline=None)
@given(
    shape=st.tuples(*(st.integers(1, 3), st.integers(1, 4), st.integers(1, 19), st.integers(1, 23))),
    seed=st.integers(0, 2**32),
)
def test_float32_gives_the_bytes_of_diffusers(shape: tuple[int, int, int, int], seed: int) -> None:
    samples, frames, height, width = shape
    data = torch.randn(samples, 3, frames, height, width, generator=torch.Generator().manual_seed(seed))
    np.testing.assert_array_equal(levels(video(data)), by_diffusers(data))


def test_every_level_its_edges_and_what_lies_outside_are_those_of_diffusers() -> None:
    exact = torch.arange(256, dtype=torch.float32) / 127.5 - 1
    halves = (torch.arange(256, dtype=torch.float32) + 0.5) / 127.5 - 1
    around = [torch.nextafter(halves, torch.full_like(halves, side)) for side in (-9.0, 9.0)]
    far = torch.tensor([3e38, -3e38, 3e38, 1e30, -1e30, 0.0, -0.0, 1e-40, 2.0])  # finite, though their sum is not
    row = torch.cat([exact, halves, *around, far])
    data = row.view(1, 1, 1, 1, -1).repeat(1, 3, 1, 2, 1)
    result = levels(video(data))
    np.testing.assert_array_equal(result, by_diffusers(data))
    np.testing.assert_array_equal(result[0, 0, 0, :256, 0], np.arange(256))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_floats_are_at_most_one_level_from_diffusers(dtype: torch.dtype) -> None:
    data = (torch.rand(1, 3, 3, 40, 40, generator=torch.Generator().manual_seed(0)) * 2.4 - 1.2).to(dtype)
    difference = levels(video(data)).astype(int) - by_diffusers(data).astype(int)
    assert np.abs(difference).max() == 1  # widening first is not the same computation, and never further away


def test_a_frame_of_many_bands_is_whole() -> None:
    width = BAND_ELEMENTS // 3 // 4
    data = torch.randn(1, 3, 1, 11, width, generator=torch.Generator().manual_seed(0))  # bands of 4, 4 and 3 rows
    np.testing.assert_array_equal(levels(video(data)), by_diffusers(data))


def test_the_temporary_is_a_band_and_not_the_video(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = torch.empty

    def counting(*shape: Any, **more: Any) -> torch.Tensor:
        made = real(*shape, **more)
        sizes.append(made.numel())
        return made

    media = video(torch.zeros(2, 3, 8, 64, 64))
    out = real(frames_shape(media), dtype=torch.uint8)
    monkeypatch.setattr(postprocess.torch, "empty", counting)
    write_levels(media, out)
    assert max(sizes) == 3 * 64 * 64


@pytest.mark.parametrize("layout", [Layout.BCTHW, Layout.BTCHW, Layout.BTHWC, Layout.BCHW, Layout.BHWC, Layout.THWC])
def test_every_layout_ends_as_nthwc(layout: Layout) -> None:
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


def test_a_slice_of_a_batch_is_read_where_it_lies() -> None:
    data = torch.randn(4, 3, 2, 6, 8, generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(levels(video(data[2:3])), by_diffusers(data)[2:3])


@pytest.mark.parametrize(("channels", "color"), [(1, ColorModel.GRAY), (4, ColorModel.RGBA)])
def test_grey_and_alpha_are_channels_like_others(channels: int, color: ColorModel) -> None:
    data = torch.randn(1, channels, 2, 6, 8, generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(levels(video(data, color=color)), by_diffusers(data))


@pytest.mark.parametrize(("value_range", "scale"), [(UNIT, 1.0), ((0.0, 4.0), 0.25)])
def test_other_value_ranges_are_brought_to_levels(value_range: tuple[float, float], scale: float) -> None:
    data = torch.rand(1, 3, 1, 6, 8, generator=torch.Generator().manual_seed(0)) * 5 - 0.5
    expected = ((data * scale).clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 4, 1)
    np.testing.assert_array_equal(levels(video(data, value_range=value_range)), expected)


DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value_range", [NORMALIZED, UNIT, (0.0, 4.0)])
@pytest.mark.parametrize(
    ("bad", "found"),
    [("nan", "1 NaN and 0 infinite"), ("inf", "0 NaN and 1 infinite"), ("-inf", "0 NaN and 1 infinite")],
)
def test_one_value_that_is_no_number_fails_the_output_wherever_it_is(
    bad: str, found: str, value_range: tuple[float, float], dtype: torch.dtype
) -> None:
    data = torch.rand(2, 3, 3, 33, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    data[1, 2, 1, 32, 7] = float(bad)
    media = video(data, value_range=value_range)
    words = f"video output is not finite: {found} of 4752 values, the first in frame 1 of sample 1; .*--keep-invalid"
    with pytest.raises(NonFiniteOutput, match=words):
        levels(media)
    with pytest.raises(NonFiniteOutput, match=words):
        write_floats(media, torch.empty(frames_shape(media)))


def test_infinities_that_cancel_each_other_are_found() -> None:
    data = torch.zeros(1, 3, 1, 4, 4)
    data[0, 0, 0, 0, 0], data[0, 0, 0, 0, 1] = float("inf"), float("-inf")
    with pytest.raises(NonFiniteOutput, match="0 NaN and 2 infinite"):
        levels(video(data))


def test_sound_that_is_no_number_fails_too() -> None:
    data = torch.zeros(2, 2, 9)
    data[1, 0, 3] = float("nan")
    audio = Media(MediaSpec(Kind.AUDIO, Layout.BCS, Encoding.FLOAT, NORMALIZED, ColorModel.NONE, sample_rate=8), data)
    with pytest.raises(NonFiniteOutput, match="the first in sample 1"):
        write_floats(audio, torch.empty(2, 2, 9))


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_kept_has_levels_of_its_own_and_a_note(dtype: torch.dtype) -> None:
    data = torch.zeros(1, 3, 1, 2, 2, dtype=dtype)
    data[0, :, 0, 0, 0], data[0, :, 0, 0, 1], data[0, :, 0, 1, 0] = float("nan"), float("inf"), float("-inf")
    out = torch.empty(frames_shape(video(data)), dtype=torch.uint8)
    (note,) = write_levels(video(data), out, Validity(keep_invalid=True))
    assert out[0, 0, :, :, 0].tolist() == [[0, 255], [0, 128]]
    assert note == (
        "kept, although the video output is not finite: 3 NaN and 6 infinite of 12 values, the first in frame 0 of sample 0"
    )
    floats = torch.empty(frames_shape(video(data)))
    assert write_floats(video(data), floats, Validity(keep_invalid=True)) == (note,)
    assert floats[0, 0, :, :, 0].tolist() == [[-1, 1], [-1, 0]]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), channels=st.sampled_from([1, 3, 4]))
def test_keeping_changes_no_byte_of_a_right_output(seed: int, channels: int) -> None:
    data = torch.randn(2, channels, 2, 5, 7, generator=torch.Generator().manual_seed(seed))
    media = video(data, color={1: ColorModel.GRAY, 3: ColorModel.RGB, 4: ColorModel.RGBA}[channels])
    np.testing.assert_array_equal(levels(media), levels(media, Validity(keep_invalid=True)))


CONSTANT = Validity(fail_on_constant=True)


def test_one_colour_is_a_failure_only_where_asked_for() -> None:
    data = torch.zeros(2, 3, 3, 5, 4)
    data[0] = torch.randn(3, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    data[1, 0] = 1
    media = video(data)
    levels(media)
    words = r"one colour in every pixel: sample 1 is \(255, 128, 128\)"
    with pytest.raises(ConstantOutput, match=words):
        levels(media, CONSTANT)
    with pytest.raises(ConstantOutput, match=words):
        write_floats(media, torch.empty(frames_shape(media)), CONSTANT)
    uint8 = torch.full((2, 4, 5, 3), 9, dtype=torch.uint8)
    with pytest.raises(ConstantOutput, match=r"sample 0 is \(9, 9, 9\), sample 1 is"):
        levels(Media(MediaSpec(Kind.IMAGE, Layout.BHWC, Encoding.UINT8, LEVELS), uint8), CONSTANT)
    out = torch.empty(frames_shape(media), dtype=torch.uint8)
    (note,) = write_levels(media, out, Validity(keep_invalid=True, fail_on_constant=True))
    assert note.startswith("kept, although the video output is one colour")


@pytest.mark.parametrize("place", [(0, 0, 0), (2, 4, 3), (1, 0, 3)])
def test_one_other_pixel_makes_it_a_picture_and_each_frame_of_one_colour_is_not_a_clip_of_one(
    place: tuple[int, int, int],
) -> None:
    frame, row, column = place
    data = torch.zeros(1, 3, 3, 5, 4)
    data[0, 1, frame, row, column] = 1
    assert levels(video(data), CONSTANT).max() == 255
    assert write_floats(video(data), torch.empty(1, 3, 5, 4, 3), CONSTANT) == ()
    data = torch.zeros(1, 3, 3, 5, 4)
    data[0, :, frame] = 1
    levels(video(data), CONSTANT)


def test_policy_keeps_floats_when_they_are_wanted() -> None:
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


def test_prepared_once_and_never_again() -> None:
    media = video(torch.zeros(2, 3, 4, 8, 8, dtype=torch.bfloat16))
    done = prepare(media, ON)
    assert done.spec == MediaSpec(Kind.VIDEO, Layout.BTHWC, Encoding.UINT8, LEVELS, prepared=True)
    assert (done.data.dtype, tuple(done.data.shape)) == (torch.uint8, (2, 4, 8, 8, 3))
    assert int(done.data.min()) == int(done.data.max()) == 128  # 127.5 to even
    with pytest.raises(MediaContractError, match="twice"):
        prepare(done, ON)
    floats = prepare(media, OFF)
    assert (floats.data.dtype, floats.spec.value_range, floats.spec.prepared) == (torch.float32, NORMALIZED, True)


def test_the_header_says_what_the_bytes_are() -> None:
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
def test_a_buffer_that_the_header_would_lie_about_is_refused(out: torch.Tensor) -> None:
    with pytest.raises(MediaContractError, match=r"buffer for a video must be contiguous torch\.uint8"):
        write_levels(video(torch.zeros(1, 3, 2, 4, 6)), out)
