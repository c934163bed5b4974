"""Codecs: which encoder is taken, what is refused before a run, and that what comes out is what went in."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from omni_cli.config import OutputConfig
from omni_cli.errors import UsageError, WriteError
from omni_cli.media import NORMALIZED, ColorModel, Kind
from omni_cli.writers.codecs import Codec, choose, codec_named, find_encoder
from omni_cli.writers.finalize import Frames
from omni_cli.writers.formats import check_available, check_side, floats_for, resolve_format
from omni_cli.writers.write import write_output

ALIEN = Codec("alien", ("no_such_codec",))


def program(folder: Path, *encoders: str) -> Path:
    """An ffmpeg that lists these video encoders."""
    rows = "".join(f"echo ' V....D {name}  what it is'\n" for name in encoders)
    path = folder / "ffmpeg"
    path.write_text(f"#!/bin/sh\necho 'Encoders:'\necho ' ------'\n{rows}")
    path.chmod(0o755)
    return path


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write frames as `name` with these output settings."""

    def write(frames: Frames, name: str, fps: float = 8.0, **options: object) -> Path:
        settings = OutputConfig(**options)  # type: ignore[arg-type]
        form = name.rpartition(".")[2]
        write_output(frames, tmp_path / name, name=name, format=form, fps=fps, options=settings)
        return tmp_path / name

    return write


def test_the_program_is_used_when_asked_for() -> None:
    assert check_available(resolve_format("mp4"), OutputConfig(encoder="ffmpeg")) == "ffmpeg"


def test_a_codec_that_only_the_program_has_goes_to_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(program(tmp_path, "no_such_codec")))
    assert find_encoder("alien", ALIEN, ("h264",), OutputConfig()).by == "ffmpeg"
    with pytest.raises(UsageError, match=r"no_such_codec, which this PyAV lacks.*--encoder ffmpeg"):
        find_encoder("alien", ALIEN, ("h264",), OutputConfig(encoder="pyav"))


def test_a_codec_that_nobody_has_is_named_with_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path, "libx264")
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(path))
    with pytest.raises(UsageError) as caught:
        find_encoder("alien", ALIEN, ("h264", "vp9"), OutputConfig())
    assert "no_such_codec" in str(caught.value)
    assert str(path) in str(caught.value)
    assert "PyAV can encode here: h264, vp9" in str(caught.value)


def test_a_program_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(tmp_path / "gone"))
    with pytest.raises(UsageError, match=r"gone.*IMAGEIO_FFMPEG_EXE"):
        check_available(resolve_format("mp4"), OutputConfig(encoder="ffmpeg"))


@pytest.mark.parametrize(
    ("form", "options", "reason"),
    [
        ("webm", {"codec": "h264"}, "format webm cannot hold h264; it holds vp9, av1"),
        ("mp4", {"codec": "prores"}, "format mp4 cannot hold prores"),
        ("mp4", {"codec": "h266"}, r"unknown codec 'h266' \(did you mean h26[45]\?\); there are: h264, h265, av1"),
        ("mp4", {"crf": 60}, "--crf 60: h264 takes 0 to 51"),
        ("webm", {"pix_fmt": "yuv422p10le"}, "--pix-fmt yuv422p10le: libvpx-vp9 takes yuv420p, yuv422p, yuv444p"),
        ("mp4", {"codec": "av1", "pix_fmt": "yuv444p"}, "--pix-fmt yuv444p: libsvtav1 takes yuv420p, yuv420p10le"),
        (
            "mp4",
            {"encoder": "ffmpeg", "codec": "h265", "pix_fmt": "p010le"},
            "--pix-fmt p010le: libx265 takes yuv420p,",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_before_a_run(form: str, options: dict[str, object], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        check_available(resolve_format(form), OutputConfig(**options))  # type: ignore[arg-type]


def test_a_chip_that_is_not_there_is_found_out_before_a_run() -> None:
    with pytest.raises(UsageError, match=r"h264_nvenc needs a GPU whose encoder answers.*use h264, h265 or av1"):
        choose("mp4", ("h264", "h264_nvenc"), OutputConfig(codec="h264_nvenc"))


def test_names_of_encoders_and_other_spellings_are_understood() -> None:
    assert [codec_named(name).name for name in ("HEVC", "libx264", "prores_ks", "libsvtav1")] == [
        *("h265", "h264", "prores", "av1")
    ]


def test_a_gif_does_not_mind_a_codec_that_is_meant_for_others(clip: Callable[..., Frames], written: Callable) -> None:
    assert written(clip(), "x.gif", codec="h265", pix_fmt="yuv420p10le").stat().st_size > 0


# Largest difference in levels of the gradient clip, 4:2:0 at crf 18 unless the layout says other: measured, one level added.
WAYS = [
    ("mp4", "h265", None, "yuv420p", 7),
    ("mov", "h265", "yuv420p10le", "yuv420p10le", 7),
    ("mp4", "h264", "yuv420p10le", "yuv420p10le", 7),
    ("mp4", "av1", None, "yuv420p", 7),
    ("webm", "av1", "yuv420p10le", "yuv420p10le", 7),
    ("mp4", "vp9", None, "yuv420p", 7),
    ("webm", "vp9", "yuv444p", "yuv444p", 6),
    ("mov", "prores", None, "yuv422p10le", 6),
    ("mkv", "prores", "yuv444p10le", "yuv444p12le", 3),
    ("mkv", "ffv1", None, "yuv444p16le", 0),
]


@pytest.mark.parametrize("encoder", ["pyav", "ffmpeg"])
@pytest.mark.parametrize(("form", "codec", "asked", "layout", "apart"), WAYS)
def test_pictures_size_rate_and_colour_tags_survive(
    clip: Callable[..., Frames],
    written: Callable[..., Path],
    decode: Callable,
    form: str,
    codec: str,
    asked: str | None,
    layout: str,
    apart: int,
    encoder: str,
) -> None:
    frames = clip(96, 64)
    found = decode(written(frames, f"x.{form}", codec=codec, pix_fmt=asked, encoder=encoder))
    assert found.frames.shape == (5, 64, 96, 3)
    assert np.abs(found.frames.astype(int) - frames.array).max() <= apart
    assert found.pixel_format == layout
    assert found.tags == (1, 1, 1, 1)
    assert found.fps == 8


@pytest.mark.parametrize(
    ("form", "codec", "layout"),
    [
        ("mp4", "h265", "yuv444p"),
        ("mp4", "av1", "yuv420p"),
        ("mov", "prores", "yuv444p12le"),
        ("mkv", "ffv1", "yuv444p16le"),
    ],
)
def test_odd_sides_are_kept(
    clip: Callable[..., Frames], written: Callable[..., Path], decode: Callable, form: str, codec: str, layout: str
) -> None:
    frames = clip(65, 63)
    found = decode(written(frames, f"x.{form}", codec=codec))
    assert found.frames.shape == (5, 63, 65, 3)
    assert found.pixel_format == layout
    assert np.abs(found.frames.astype(int) - frames.array).max() <= 7


def test_a_layout_that_cannot_keep_an_odd_side_is_refused(clip: Callable[..., Frames], written: Callable) -> None:
    options = OutputConfig(codec="h265", pix_fmt="yuv420p")
    with pytest.raises(UsageError, match="h265 in yuv420p needs even sides, and this is 65x64; use --pix-fmt yuv444p"):
        check_side(resolve_format("mp4"), options, 65, 64)
    check_side(resolve_format("mp4"), OutputConfig(pix_fmt="yuv422p"), 64, 63)
    with pytest.raises(WriteError, match="needs even sides"):
        written(clip(65, 64), "x.mp4", codec="h265", pix_fmt="yuv420p")


def test_quicktime_gets_the_tag_that_it_plays(clip: Callable[..., Frames], written: Callable[..., Path]) -> None:
    for encoder in ("pyav", "ffmpeg"):
        assert b"hvc1" in written(clip(96, 64), "x.mp4", codec="h265", encoder=encoder).read_bytes()


def test_a_deep_layout_gets_what_eight_bits_would_have_lost(written: Callable[..., Path]) -> None:
    import av

    ramp = np.linspace(-0.02, 0.02, 256, dtype=np.float32)  # a fiftieth of the range: 5 levels of 8 bits, 20 of 10
    array = np.broadcast_to(ramp[None, None, :, None], (2, 64, 256, 3)).copy()
    frames = Frames(array, Kind.VIDEO, ColorModel.RGB, NORMALIZED)
    assert floats_for(resolve_format("mp4"), OutputConfig(codec="h264", pix_fmt="yuv444p10le")) == "h264 in yuv444p10le"
    assert floats_for(resolve_format("mp4"), OutputConfig()) == ""
    for options in ({"codec": "ffv1"}, {"codec": "ffv1", "encoder": "ffmpeg"}):
        with av.open(str(written(frames, "x.mkv", **options))) as container:
            luma = next(container.decode(video=0)).to_ndarray()[0]
        assert len(np.unique(luma)) > 200


def test_another_codec_or_layout_is_another_file(clip: Callable[..., Frames], written: Callable[..., Path]) -> None:
    files = [
        written(clip(96, 64), "x.mp4", **options).read_bytes()
        for options in ({}, {"codec": "h265"}, {"pix_fmt": "yuv444p"}, {"codec": "h265", "encoder_preset": "ultrafast"})
    ]
    assert len(set(files)) == 4


@pytest.mark.parametrize("codec", ["h264", "h265", "av1", "vp9"])
def test_the_same_frames_make_the_same_bytes(
    clip: Callable[..., Frames], written: Callable[..., Path], codec: str
) -> None:
    first, second = (written(clip(96, 64), f"{name}.mp4", codec=codec).read_bytes() for name in "xy")
    assert first == second


def test_pictures_in_which_x265_breaks_its_memory_are_refused() -> None:
    with pytest.raises(UsageError, match="h265 needs a width of 65 pixels or more, and this is 64; use h264 or av1"):
        check_side(resolve_format("mp4"), OutputConfig(codec="h265"), 64, 512)
