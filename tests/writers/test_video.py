from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omni_cli.config import OutputConfig
from omni_cli.errors import WriteError
from omni_cli.media import NORMALIZED, Kind
from omni_cli.writers.codecs import PRESETS
from omni_cli.writers.finalize import Frames
from omni_cli.writers.video import frame_rate
from omni_cli.writers.write import write_output

pytestmark = pytest.mark.parametrize("encoder", ["pyav", "ffmpeg"])

PRIMARIES = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0), (0, 255, 255), (255, 0, 255)]
GREYS = [(level, level, level) for level in (0, 16, 64, 128, 192, 235, 255)]


@pytest.fixture
def written(tmp_path: Path, encoder: str) -> Callable[..., Path]:
    def write(frames: Frames, form: str, fps: float = 8.0, name: str = "x", **options: object) -> Path:
        settings = OutputConfig(encoder=encoder, **options)  # type: ignore[arg-type]
        file = f"{name}.{form}"
        write_output(frames, tmp_path / file, name=file, format=form, fps=fps, options=settings)
        return tmp_path / file

    return write


def psnr(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / max(np.mean((ours.astype(float) - theirs) ** 2), 1e-6)))


@pytest.mark.parametrize("form", ["mp4", "webm", "gif"])
@pytest.mark.parametrize("size", [(64, 64), (65, 63), (66, 34), (1, 1), (3, 2)])
def test_any_size_decodes_at_that_size_with_every_frame(
    clip: Callable[..., Frames], written: Callable[..., Path], decode: Callable, form: str, size: tuple[int, int]
) -> None:
    got = decode(written(clip(*size), form))
    assert got.frames.shape == (5, size[1], size[0], 3)
    assert got.times[0] == 0
    assert got.times == sorted(set(got.times))


@pytest.mark.parametrize("size", [(64, 64), (65, 63)])
@pytest.mark.parametrize(("form", "floor"), [("mp4", 38.0), ("webm", 32.0), ("gif", 36.0)])
def test_pictures_are_the_ones_given_in_their_order(
    clip: Callable[..., Frames],
    written: Callable[..., Path],
    decode: Callable,
    form: str,
    floor: float,
    size: tuple[int, int],
) -> None:
    frames = clip(*size, channels=1)  # grey: the chroma that 4:2:0 gives up is not the question
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
    got = decode(written(clip(width), form))
    assert got.tags == (1, 1, 1, 1)
    assert got.pixel_format == pixel_format


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
    got = decode(written(clip(count=9), "mp4", fps))
    assert got.fps == rate
    assert got.times == [index / rate for index in range(9)]


def test_webm_has_the_rate_to_its_millisecond(
    clip: Callable[..., Frames], written: Callable[..., Path], decode: Callable
) -> None:
    got = decode(written(clip(count=9), "webm", 23.976))
    assert float(got.fps) == pytest.approx(24000 / 1001, rel=1e-4)
    assert [float(time) for time in got.times] == pytest.approx(
        [index * 1001 / 24000 for index in range(9)], abs=0.0006
    )


@pytest.mark.parametrize(
    ("fps", "delays"), [(16.0, [60, 70, 60, 60, 60]), (50.0, [20] * 5), (8.0, [130, 120, 130, 120, 130])]
)
def test_gif_delays_add_up_to_the_rate(
    clip: Callable[..., Frames], written: Callable[..., Path], fps: float, delays: list[int]
) -> None:
    got = []
    with Image.open(written(clip(), "gif", fps)) as image:
        for index in range(5):
            image.seek(index)
            got.append(image.info["duration"])
    assert sum(got) == pytest.approx(sum(delays), abs=10)
    assert got[:4] == delays[:4]


@pytest.mark.parametrize("form", ["mp4", "webm", "gif"])
def test_the_same_frames_give_the_same_bytes(
    clip: Callable[..., Frames], written: Callable[..., Path], form: str
) -> None:
    assert written(clip(), form).read_bytes() == written(clip(), form, name="another").read_bytes()


@pytest.mark.parametrize("size", [(64, 64), (96, 66), (65, 63)])
def test_mp4_bytes_do_not_depend_on_what_was_encoded_before(
    clip: Callable[..., Frames], written: Callable[..., Path], size: tuple[int, int]
) -> None:
    found = set()
    for _ in range(4):
        written(clip(96, 66), "webm")
        written(clip(80, 50), "gif")
        found.add(written(clip(*size), "mp4").read_bytes())
    assert len(found) == 1


def test_mp4_starts_with_its_index(clip: Callable[..., Frames], written: Callable[..., Path]) -> None:
    data = written(clip(), "mp4").read_bytes()
    assert 0 < data.index(b"moov") < data.index(b"mdat")


def test_float_frames_are_converted_on_the_way(clip: Callable[..., Frames], written: Callable[..., Path]) -> None:
    levels = clip()
    floats = Frames((levels.array / np.float32(127.5) - 1).astype(np.float32), Kind.VIDEO, levels.color, NORMALIZED)
    assert written(floats, "mp4", name="floats").read_bytes() == written(levels, "mp4", name="levels").read_bytes()


@pytest.mark.parametrize("form", ["mp4", "webm"])
def test_crf_and_preset_are_obeyed(clip: Callable[..., Frames], written: Callable[..., Path], form: str) -> None:
    def size(**options: object) -> int:
        return written(clip(128, 128), form, **options).stat().st_size

    assert size(crf=45) < size(crf=10)
    assert size(encoder_preset="ultrafast") != size(encoder_preset="medium")


def test_unknown_preset_names_those_there_are(clip: Callable[..., Frames], written: Callable[..., Path]) -> None:
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
def test_a_rate_is_what_people_mean_by_it(encoder: str, fps: float, rate: str) -> None:
    assert frame_rate(fps) == Fraction(rate)
