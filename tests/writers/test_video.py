"""Videos: size, pixels, colours, rate and bytes, the same with both encoders."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omni_cli.errors import WriteError
from omni_cli.media import NORMALIZED, Kind
from omni_cli.writers.codecs import PRESETS
from omni_cli.writers.samples import Frames
from omni_cli.writers.video import frame_rate

pytestmark = pytest.mark.parametrize("encoder", ["pyav", "ffmpeg"])

PRIMARIES = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0), (0, 255, 255), (255, 0, 255)]
GREYS = [(level, level, level) for level in (0, 16, 64, 128, 192, 235, 255)]


@pytest.fixture
def written(written: Callable[..., Path], encoder: str) -> Callable[..., Path]:
    """Write with the encoder under test."""
    return partial(written, encoder=encoder)


def psnr(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / max(np.mean((ours.astype(float) - theirs) ** 2), 1e-6)))


@pytest.mark.parametrize("form", ["mp4", "webm", "gif"])
@pytest.mark.parametrize("size", [(64, 64), (65, 63), (66, 34), (1, 1), (3, 2)])
def test_any_size_decodes_at_that_size_with_every_frame(
    clip: Callable[..., Frames], written: Callable[..., Path], decode: Callable, form: str, size: tuple[int, int]
) -> None:
    decoded = decode(written(clip(*size), form))
    assert decoded.frames.shape == (5, size[1], size[0], 3)
    assert decoded.times[0] == 0
    assert decoded.times == sorted(set(decoded.times))


@pytest.mark.parametrize("size", [(64, 64), (65, 63)])
@pytest.mark.parametrize(("form", "floor"), [("mp4", 38.0), ("webm", 32.0), ("gif", 36.0)])
def test_frames_decode_in_order(
    clip: Callable[..., Frames],
    written: Callable[..., Path],
    decode: Callable,
    form: str,
    floor: float,
    size: tuple[int, int],
) -> None:
    frames = clip(*size, channels=1)  # grey: 4:2:0 loses chroma
    expected = np.repeat(frames.array, 3, axis=3)
    assert psnr(decode(written(frames, form)).frames, expected) > floor


@pytest.mark.parametrize("form", ["mp4", "webm"])
@pytest.mark.parametrize("width", [64, 65])
def test_primaries_and_greys_decode_within_two_levels(
    clip: Callable[..., Frames], written: Callable[..., Path], decode: Callable, form: str, width: int
) -> None:
    paints = np.array(PRIMARIES + GREYS, np.uint8)[:, None, None, :]
    whole = clip(width, 48, len(paints))
    frames = Frames(np.ascontiguousarray(np.broadcast_to(paints, whole.array.shape)), whole.kind, whole.color)
    off = np.abs(decode(written(frames, form)).frames.astype(int) - paints).max(axis=(1, 2, 3))
    assert off.max() <= 2, off


@pytest.mark.parametrize(
    ("form", "width", "pixel_format"), [("mp4", 64, "yuv420p"), ("mp4", 65, "yuv444p"), ("webm", 65, "yuv420p")]
)
def test_video_is_tagged_bt709_limited(
    clip: Callable[..., Frames],
    written: Callable[..., Path],
    decode: Callable,
    form: str,
    width: int,
    pixel_format: str,
) -> None:
    decoded = decode(written(clip(width), form))
    assert decoded.tags == (1, 1, 1, 1)
    assert decoded.pixel_format == pixel_format


@pytest.mark.parametrize(
    ("fps", "rate"),
    [
        (23.976, Fraction(24000, 1001)),
        (29.97, Fraction(30000, 1001)),
        (24, Fraction(24)),
        (12.5, Fraction(25, 2)),
        (0.5, Fraction(1, 2)),
    ],
)
def test_mp4_has_the_exact_rate(
    clip: Callable[..., Frames], written: Callable[..., Path], decode: Callable, fps: float, rate: Fraction
) -> None:
    decoded = decode(written(clip(count=9), "mp4", fps=fps))
    assert decoded.fps == rate
    assert decoded.times == [index / rate for index in range(9)]


def test_webm_has_the_rate_to_its_millisecond(
    clip: Callable[..., Frames], written: Callable[..., Path], decode: Callable
) -> None:
    decoded = decode(written(clip(count=9), "webm", fps=23.976))
    assert float(decoded.fps) == pytest.approx(24000 / 1001, rel=1e-4)
    assert [float(time) for time in decoded.times] == pytest.approx(
        [index * 1001 / 24000 for index in range(9)], abs=0.0006
    )


@pytest.mark.parametrize(
    ("fps", "delays"), [(16.0, [60, 70, 60, 60, 60]), (50.0, [20] * 5), (8.0, [130, 120, 130, 120, 130])]
)
def test_gif_delays_add_up_to_the_rate(
    clip: Callable[..., Frames], written: Callable[..., Path], fps: float, delays: list[int]
) -> None:
    decoded = []
    with Image.open(written(clip(), "gif", fps=fps)) as image:
        for index in range(5):
            image.seek(index)
            decoded.append(image.info["duration"])
    assert sum(decoded) == pytest.approx(sum(delays), abs=10)
    assert decoded[:4] == delays[:4]


@pytest.mark.parametrize("form", ["mp4", "webm", "gif"])
def test_same_frames_give_the_same_bytes(clip: Callable[..., Frames], written: Callable[..., Path], form: str) -> None:
    assert written(clip(), form).read_bytes() == written(clip(), form, name="another").read_bytes()


@pytest.mark.parametrize("size", [(64, 64), (96, 66), (65, 63)])
def test_mp4_bytes_do_not_depend_on_what_was_encoded_before(
    clip: Callable[..., Frames], written: Callable[..., Path], size: tuple[int, int]
) -> None:
    files = set()
    for _ in range(4):
        written(clip(96, 66), "webm")
        written(clip(80, 50), "gif")
        files.add(written(clip(*size), "mp4").read_bytes())
    assert len(files) == 1


def test_mp4_index_comes_before_the_data(clip: Callable[..., Frames], written: Callable[..., Path]) -> None:
    data = written(clip(), "mp4").read_bytes()
    assert 0 < data.index(b"moov") < data.index(b"mdat")


def test_float_frames_give_the_bytes_of_their_levels(clip: Callable[..., Frames], written: Callable[..., Path]) -> None:
    levels = clip()
    floats = Frames((levels.array / np.float32(127.5) - 1).astype(np.float32), Kind.VIDEO, levels.color, NORMALIZED)
    assert written(floats, "mp4", name="floats").read_bytes() == written(levels, "mp4", name="levels").read_bytes()


@pytest.mark.parametrize("form", ["mp4", "webm"])
def test_crf_and_preset_change_the_file(clip: Callable[..., Frames], written: Callable[..., Path], form: str) -> None:
    def size(**options: object) -> int:
        return written(clip(128, 128), form, **options).stat().st_size

    assert size(crf=45) < size(crf=10)
    assert size(encoder_preset="ultrafast") != size(encoder_preset="medium")


def test_unknown_preset_is_refused_with_the_known_ones(
    clip: Callable[..., Frames], written: Callable[..., Path]
) -> None:
    for form in ("mp4", "webm"):
        with pytest.raises(WriteError, match=f"unknown encoder preset 'warp'; there are: {', '.join(PRESETS)}"):
            written(clip(), form, encoder_preset="warp")


@pytest.mark.parametrize(
    ("fps", "rate"),
    [
        (23.98, "24000/1001"),
        (59.94, "60000/1001"),
        (119.88, "120000/1001"),
        (23.97, "2397/100"),
        (30, "30"),
        (10 / 3, "10/3"),
    ],
)
def test_rounded_rate_means_the_exact_one(encoder: str, fps: float, rate: str) -> None:
    assert frame_rate(fps) == Fraction(rate)
