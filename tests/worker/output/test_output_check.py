"""NaN, infinity and outputs of one colour fail the request, or are kept with a note."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_cli.errors import ConstantOutput, NonFiniteOutput
from omni_cli.media import LEVELS, NORMALIZED, UNIT, ColorModel, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.worker.output.output_check import OutputPolicy
from omni_cli.worker.output.postprocess import frames_shape, write_floats, write_levels
from tests.worker.output.test_postprocess import levels, video

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value_range", [NORMALIZED, UNIT, (0.0, 4.0)])
@pytest.mark.parametrize(
    ("bad", "counts"),
    [("nan", "1 NaN and 0 infinite"), ("inf", "0 NaN and 1 infinite"), ("-inf", "0 NaN and 1 infinite")],
)
def test_a_single_nan_or_infinity_fails_the_output_and_is_located(
    bad: str, counts: str, value_range: tuple[float, float], dtype: torch.dtype
) -> None:
    data = torch.rand(2, 3, 3, 33, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    data[1, 2, 1, 32, 7] = float(bad)
    media = video(data, value_range=value_range)
    message = f"video output is not finite: {counts} of 4752 values, the first in frame 1 of sample 1; .*--keep-invalid"
    with pytest.raises(NonFiniteOutput, match=message):
        levels(media)
    with pytest.raises(NonFiniteOutput, match=message):
        write_floats(media, torch.empty(frames_shape(media)))


def test_infinities_of_opposite_sign_are_found() -> None:
    data = torch.zeros(1, 3, 1, 4, 4)
    data[0, 0, 0, 0, 0], data[0, 0, 0, 0, 1] = float("inf"), float("-inf")
    with pytest.raises(NonFiniteOutput, match="0 NaN and 2 infinite"):
        levels(video(data))


def test_nan_in_audio_fails_the_output() -> None:
    data = torch.zeros(2, 2, 9)
    data[1, 0, 3] = float("nan")
    audio = Media(MediaSpec(Kind.AUDIO, Layout.BCS, Encoding.FLOAT, NORMALIZED, ColorModel.NONE, sample_rate=8), data)
    with pytest.raises(NonFiniteOutput, match="the first in sample 1"):
        write_floats(audio, torch.empty(2, 2, 9))


@pytest.mark.parametrize("dtype", DTYPES)
def test_kept_nan_and_infinity_become_levels_with_a_note(dtype: torch.dtype) -> None:
    data = torch.zeros(1, 3, 1, 2, 2, dtype=dtype)
    data[0, :, 0, 0, 0], data[0, :, 0, 0, 1], data[0, :, 0, 1, 0] = float("nan"), float("inf"), float("-inf")
    out = torch.empty(frames_shape(video(data)), dtype=torch.uint8)
    (note,) = write_levels(video(data), out, OutputPolicy(keep_invalid=True))
    assert out[0, 0, :, :, 0].tolist() == [[0, 255], [0, 128]]
    counts = "3 NaN and 6 infinite of 12 values"
    assert note == f"kept, although the video output is not finite: {counts}, the first in frame 0 of sample 0"
    floats = torch.empty(frames_shape(video(data)))
    assert write_floats(video(data), floats, OutputPolicy(keep_invalid=True)) == (note,)
    assert floats[0, 0, :, :, 0].tolist() == [[-1, 1], [-1, 0]]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), channels=st.sampled_from([1, 3, 4]))
def test_keep_invalid_changes_no_byte_of_a_valid_output(seed: int, channels: int) -> None:
    data = torch.randn(2, channels, 2, 5, 7, generator=torch.Generator().manual_seed(seed))
    media = video(data, color={1: ColorModel.GRAY, 3: ColorModel.RGB, 4: ColorModel.RGBA}[channels])
    np.testing.assert_array_equal(levels(media), levels(media, OutputPolicy(keep_invalid=True)))


CONSTANT = OutputPolicy(fail_on_constant=True)


def test_one_colour_fails_only_with_fail_on_constant() -> None:
    data = torch.zeros(2, 3, 3, 5, 4)
    data[0] = torch.randn(3, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    data[1, 0] = 1
    media = video(data)
    levels(media)
    message = r"one colour in every pixel: sample 1 is \(255, 128, 128\)"
    with pytest.raises(ConstantOutput, match=message):
        levels(media, CONSTANT)
    with pytest.raises(ConstantOutput, match=message):
        write_floats(media, torch.empty(frames_shape(media)), CONSTANT)
    uint8 = torch.full((2, 4, 5, 3), 9, dtype=torch.uint8)
    with pytest.raises(ConstantOutput, match=r"sample 0 is \(9, 9, 9\), sample 1 is"):
        levels(Media(MediaSpec(Kind.IMAGE, Layout.BHWC, Encoding.UINT8, LEVELS), uint8), CONSTANT)
    out = torch.empty(frames_shape(media), dtype=torch.uint8)
    (note,) = write_levels(media, out, OutputPolicy(keep_invalid=True, fail_on_constant=True))
    assert note.startswith("kept, although the video output is one colour")


@pytest.mark.parametrize("place", [(0, 0, 0), (2, 4, 3), (1, 0, 3)])
def test_one_different_pixel_or_frame_is_not_constant(
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
