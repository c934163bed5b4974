"""Payloads as samples: views, quantization, and headers that do not match their bytes."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from omni_cli.errors import MediaContractError, NonFiniteOutput
from omni_cli.media import LEVELS, NORMALIZED, UNIT, ColorModel, Kind, MediaHeader, TrackHeader
from omni_cli.writers.samples import Frames, payload_array, split_samples, to_uint8


def header(shape: tuple[int, ...], **fields: object) -> MediaHeader:
    facts = {"kind": Kind.VIDEO, "dtype": "uint8", "color": ColorModel.RGB, "value_range": LEVELS} | fields
    return MediaHeader(shape=shape, **facts)  # type: ignore[arg-type]


def test_uint8_payload_is_viewed_and_not_copied() -> None:
    buffer = bytearray(2 * 3 * 4 * 5 * 3)
    parts = split_samples(header((2, 3, 4, 5, 3)), memoryview(buffer))
    frames = [list(part) for part in parts]
    buffer[3 * 4 * 5 * 3] = 9
    assert [len(part) for part in parts] == [3, 3]
    assert frames[1][0][0, 0, 0] == 9
    assert frames[1][0].shape == (4, 5, 3)
    assert frames[1][0].flags.c_contiguous
    assert (parts[0].height, parts[0].width, parts[0].channels) == (4, 5, 3)


def test_float_payload_gives_the_rounded_bytes_of_diffusers_np_output() -> None:
    import torch
    from diffusers.image_processor import VaeImageProcessor

    halves = (np.arange(0, 511, dtype=np.float32) / 510 - 0.5) * 2
    values = np.concatenate([np.linspace(-1.2, 1.2, 300_000, dtype=np.float32), halves])
    values = np.concatenate([values, np.nextafter(halves, -2), np.nextafter(halves, 2)]).astype(np.float32)
    values = values[: values.size // 3 * 3].reshape(1, -1, 1, 3)
    tensor = torch.from_numpy(values).permute(0, 3, 1, 2)
    expected = (VaeImageProcessor().postprocess(tensor, output_type="np") * 255).round().astype("uint8")

    facts = header((1, *values.shape), kind=Kind.IMAGE, dtype="float32", value_range=NORMALIZED)
    (frames,) = split_samples(facts, values.tobytes())
    assert np.array_equal(next(iter(frames)), expected[0])


@pytest.mark.parametrize(
    ("value_range", "values"),
    [(NORMALIZED, [-1, 0, 1, 5]), (UNIT, [0, 0.5, 1, 3]), (LEVELS, [0, 127.5, 255, 999]), ((-2.0, 2.0), [-2, 0, 2, 6])],
)
def test_any_value_range_is_clamped_and_rounded_half_to_even(
    value_range: tuple[float, float], values: list[float]
) -> None:
    levels = to_uint8(np.array(values, np.float32), value_range)
    assert levels.tolist() == [0, 128, 255, 255]  # 127.5 to even


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_errors(bad: float) -> None:
    with pytest.raises(NonFiniteOutput, match="NaN or infinity"):
        to_uint8(np.array([0.5, bad, 0.5], np.float32), NORMALIZED)


def test_conversion_does_not_change_the_payload() -> None:
    payload = np.full((1, 2, 2, 2, 3), 0.25, np.float32)
    for value_range in (NORMALIZED, UNIT, LEVELS):
        (frames,) = split_samples(header(payload.shape, dtype="float32", value_range=value_range), memoryview(payload))
        first, again = list(frames), list(frames)
        assert np.array_equal(first, again)
    assert (payload == 0.25).all()


def test_iterating_over_a_float_clip_holds_one_frame_at_a_time(tmp_path: Path) -> None:
    clip = np.lib.format.open_memmap(tmp_path / "clip.npy", "w+", np.float32, (64, 64, 64, 3))
    frames = Frames(clip, Kind.VIDEO, ColorModel.RGB, NORMALIZED)
    tracemalloc.start()
    assert sum(int(frame[0, 0, 0]) for frame in frames) == 64 * 128
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * clip[0].nbytes


@pytest.mark.parametrize(
    ("facts", "nbytes", "rule"),
    [
        (header((1, 2, 4, 4, 3)), 95, "needs 96 bytes, 95 arrived"),
        (header((1, 2, 4, 4, 3)), 97, "needs 96 bytes, 97 arrived"),
        (header((1, 2, 4, 4, 3), dtype="float16"), 192, "dtype must be uint8 or float32"),
        (header((2, 4, 4, 3)), 96, r"\[N, T, H, W, C\]"),
        (header((1, 0, 4, 4, 3)), 0, "at least 1"),
        (header((1, 2, 4, 4, 4)), 128, "axis C must hold 3 channels"),
        (header((1, 2, 4, 4, 3), kind=Kind.IMAGE), 96, "one frame"),
        (header((1, 2, 4, 4, 3), dtype="float32", value_range=(1.0, 1.0)), 384, "is empty"),
        (header((1, 2, 4), kind=Kind.AUDIO, dtype="float32"), 32, "with a sample rate"),
        (header((1, 2, 4), kind=Kind.AUDIO, sample_rate=8000), 8, "audio must be float32"),
        (
            header((1, 2, 4, 4, 3), audio=TrackHeader(shape=(2, 1, 4), offset=128, sample_rate=8000)),
            160,
            "does not match the frames",
        ),
        (
            header((1, 2, 4, 4, 3), audio=TrackHeader(shape=(1, 1, 4), offset=64, sample_rate=8000)),
            160,
            "does not match the frames",
        ),
        (header((1, 2, 4, 4, 3), audio=TrackHeader(shape=(1, 1, 4), offset=128, sample_rate=8000)), 160, "needs 144"),
    ],
)
def test_payload_that_does_not_match_its_header_is_refused_with_the_rule(
    facts: MediaHeader, nbytes: int, rule: str
) -> None:
    with pytest.raises(MediaContractError, match=rule):
        payload_array(facts, bytes(nbytes))
