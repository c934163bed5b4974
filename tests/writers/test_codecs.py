"""Codecs: the choice of the encoder, refusals before a run, and the decoded result."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from omni_cli.config import OutputConfig
from omni_cli.errors import UsageError, WriteError
from omni_cli.media import NORMALIZED, ColorModel, Kind
from omni_cli.writers.codecs import Codec, choose_encoder, find_encoder, resolve_codec
from omni_cli.writers.formats import check_size, find_backend, floats_for, resolve_format
from omni_cli.writers.samples import Frames

ALIEN = Codec("alien", ("no_such_codec",))


def program(folder: Path, *encoders: str) -> Path:
    """Return an ffmpeg program that lists these video encoders."""
    rows = "".join(f"echo ' V....D {name}  what it is'\n" for name in encoders)
    path = folder / "ffmpeg"
    path.write_text(f"#!/bin/sh\necho 'Encoders:'\necho ' ------'\n{rows}")
    path.chmod(0o755)
    return path


def test_ffmpeg_program_is_used_when_asked_for() -> None:
    assert find_backend(resolve_format("mp4"), OutputConfig(encoder="ffmpeg")) == "ffmpeg"


def test_codec_that_only_the_ffmpeg_program_has_is_encoded_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(program(tmp_path, "no_such_codec")))
    assert find_encoder("alien", ALIEN, ("h264",), OutputConfig()).backend == "ffmpeg"
    with pytest.raises(UsageError, match=r"no_such_codec, which this PyAV lacks.*--encoder ffmpeg"):
        find_encoder("alien", ALIEN, ("h264",), OutputConfig(encoder="pyav"))


def test_unavailable_codec_is_reported_with_the_available_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path, "libx264")
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(path))
    with pytest.raises(UsageError) as caught:
        find_encoder("alien", ALIEN, ("h264", "vp9"), OutputConfig())
    assert "no_such_codec" in str(caught.value)
    assert str(path) in str(caught.value)
    assert "PyAV can encode here: h264, vp9" in str(caught.value)


def test_missing_ffmpeg_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(tmp_path / "gone"))
    with pytest.raises(UsageError, match=r"gone.*IMAGEIO_FFMPEG_EXE"):
        find_backend(resolve_format("mp4"), OutputConfig(encoder="ffmpeg"))


@pytest.mark.parametrize(
    ("form", "options", "reason"),
    [
        ("webm", {"codec": "h264"}, "format webm cannot hold h264; it holds vp9, av1"),
        ("mp4", {"codec": "prores"}, "format mp4 cannot hold prores"),
        ("mp4", {"codec": "h266"}, r'unknown codec \'h266\'; did you mean "h26[45]"\?'),
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
def test_conflicting_settings_are_refused_before_a_run(form: str, options: dict[str, object], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        find_backend(resolve_format(form), OutputConfig(**options))  # type: ignore[arg-type]


def test_missing_hardware_encoder_is_refused_before_a_run() -> None:
    with pytest.raises(UsageError, match=r"h264_nvenc needs a GPU whose encoder answers.*use h264, h265 or av1"):
        choose_encoder("mp4", ("h264", "h264_nvenc"), OutputConfig(codec="h264_nvenc"))


def test_encoder_names_and_aliases_resolve_to_codecs() -> None:
    assert [resolve_codec(name).name for name in ("HEVC", "libx264", "prores_ks", "libsvtav1")] == [
        *("h265", "h264", "prores", "av1")
    ]


def test_gif_ignores_the_codec_setting(clip: Callable[..., Frames], written: Callable) -> None:
    assert written(clip(), "gif", codec="h265", pix_fmt="yuv420p10le").stat().st_size > 0


# (format, codec, --pix-fmt, decoded layout, tolerance). The tolerance is the largest difference in levels of the
# gradient clip at crf 18, as measured, plus one.
CASES = [
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
@pytest.mark.parametrize(("form", "codec", "pix_fmt", "layout", "tolerance"), CASES)
def test_pixels_size_rate_and_colour_tags_are_kept(
    clip: Callable[..., Frames],
    written: Callable[..., Path],
    decode: Callable,
    form: str,
    codec: str,
    pix_fmt: str | None,
    layout: str,
    tolerance: int,
    encoder: str,
) -> None:
    frames = clip(96, 64)
    decoded = decode(written(frames, form, codec=codec, pix_fmt=pix_fmt, encoder=encoder))
    assert decoded.frames.shape == (5, 64, 96, 3)
    assert np.abs(decoded.frames.astype(int) - frames.array).max() <= tolerance
    assert decoded.pixel_format == layout
    assert decoded.tags == (1, 1, 1, 1)
    assert decoded.fps == 8


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
    decoded = decode(written(frames, form, codec=codec))
    assert decoded.frames.shape == (5, 63, 65, 3)
    assert decoded.pixel_format == layout
    assert np.abs(decoded.frames.astype(int) - frames.array).max() <= 7


def test_layout_that_cannot_keep_an_odd_side_is_refused(clip: Callable[..., Frames], written: Callable) -> None:
    options = OutputConfig(codec="h265", pix_fmt="yuv420p")
    with pytest.raises(UsageError, match="h265 in yuv420p needs even sides, and this is 65x64; use --pix-fmt yuv444p"):
        check_size(resolve_format("mp4"), options, 65, 64)
    check_size(resolve_format("mp4"), OutputConfig(pix_fmt="yuv422p"), 64, 63)
    with pytest.raises(WriteError, match="needs even sides"):
        written(clip(65, 64), "mp4", codec="h265", pix_fmt="yuv420p")


def test_h265_in_mp4_has_the_tag_that_quicktime_plays(
    clip: Callable[..., Frames], written: Callable[..., Path]
) -> None:
    for encoder in ("pyav", "ffmpeg"):
        assert b"hvc1" in written(clip(96, 64), "mp4", codec="h265", encoder=encoder).read_bytes()


def test_layout_of_more_than_8_bits_is_encoded_from_floats(written: Callable[..., Path]) -> None:
    import av

    ramp = np.linspace(-0.02, 0.02, 256, dtype=np.float32)  # a fiftieth of the range: 5 levels of 8 bits, 20 of 10
    array = np.broadcast_to(ramp[None, None, :, None], (2, 64, 256, 3)).copy()
    frames = Frames(array, Kind.VIDEO, ColorModel.RGB, NORMALIZED)
    assert floats_for(resolve_format("mp4"), OutputConfig(codec="h264", pix_fmt="yuv444p10le")) == "h264 in yuv444p10le"
    assert floats_for(resolve_format("mp4"), OutputConfig()) == ""
    for options in ({"codec": "ffv1"}, {"codec": "ffv1", "encoder": "ffmpeg"}):
        with av.open(str(written(frames, "mkv", **options))) as container:
            luma = next(container.decode(video=0)).to_ndarray()[0]
        assert len(np.unique(luma)) > 200


def test_codec_layout_and_preset_change_the_file(clip: Callable[..., Frames], written: Callable[..., Path]) -> None:
    files = [
        written(clip(96, 64), "mp4", **options).read_bytes()
        for options in ({}, {"codec": "h265"}, {"pix_fmt": "yuv444p"}, {"codec": "h265", "encoder_preset": "ultrafast"})
    ]
    assert len(set(files)) == 4


@pytest.mark.parametrize("codec", ["h264", "h265", "av1", "vp9"])
def test_same_frames_give_the_same_bytes(clip: Callable[..., Frames], written: Callable[..., Path], codec: str) -> None:
    first, second = (written(clip(96, 64), "mp4", name=name, codec=codec).read_bytes() for name in "xy")
    assert first == second


def test_width_that_x265_cannot_encode_is_refused() -> None:
    with pytest.raises(UsageError, match="h265 needs a width of 65 pixels or more, and this is 64; use h264 or av1"):
        check_size(resolve_format("mp4"), OutputConfig(codec="h265"), 64, 512)
