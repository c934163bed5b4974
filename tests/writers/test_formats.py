import subprocess
import sys
from pathlib import Path

import pytest

from omni_cli.errors import UsageError
from omni_cli.media import Kind
from omni_cli.writers.formats import FORMATS, Format, check_available, check_fps, default_format, resolve_format

ALIEN = Format("alien", ".alien", frozenset({Kind.VIDEO}), frozenset(), codec="no_such_codec")


def program(folder: Path, *encoders: str) -> Path:
    """An ffmpeg that lists these video encoders."""
    rows = "".join(f"echo ' V....D {name}  what it is'\n" for name in encoders)
    path = folder / "ffmpeg"
    path.write_text(f"#!/bin/sh\necho 'Encoders:'\necho ' ------'\n{rows}")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("said", "name"), [("PNG", "png"), (".mp4", "mp4"), ("jpg", "jpeg"), ("JPEG", "jpeg"), ("npy", "npy")]
)
def test_names_are_found_in_any_case_and_by_their_alias(said: str, name: str) -> None:
    assert resolve_format(said).name == name


def test_unknown_format_names_the_nearest_one() -> None:
    with pytest.raises(UsageError, match=r"unknown format 'mp44' \(did you mean mp4\?\); there are: png, jpeg, "):
        resolve_format("mp44")


def test_format_that_cannot_hold_the_kind_names_those_that_can() -> None:
    with pytest.raises(UsageError, match="png cannot hold video output; formats for video: mp4, webm, gif, npy"):
        resolve_format("png", Kind.VIDEO)
    with pytest.raises(UsageError, match="gif cannot hold image output; formats for image: png, jpeg, webp, npy"):
        resolve_format("gif", Kind.IMAGE)
    assert resolve_format("npy", Kind.VIDEO) is resolve_format("npy", Kind.IMAGE)


def test_defaults_are_png_and_mp4_and_audio_has_none() -> None:
    assert (default_format(Kind.IMAGE).extension, default_format(Kind.VIDEO).extension) == (".png", ".mp4")
    with pytest.raises(UsageError, match="audio"):
        default_format(Kind.AUDIO)


@pytest.mark.parametrize("fps", [None, 0.0, -8.0, float("nan"), float("inf"), 51.0])
def test_gif_refuses_rates_that_players_cannot_keep(fps: float | None) -> None:
    with pytest.raises(UsageError, match="fps"):
        check_fps(resolve_format("gif"), fps)


def test_formats_without_a_clock_need_no_fps() -> None:
    check_fps(resolve_format("png"), None)
    check_fps(resolve_format("npy"), None)
    check_fps(resolve_format("gif"), 50.0)


def test_every_format_is_available_here() -> None:
    encoders = {form.name: check_available(form) for form in FORMATS}
    image, video = ("png", "jpeg", "webp"), ("mp4", "webm", "gif")
    assert encoders == dict.fromkeys(image, "pillow") | dict.fromkeys(video, "pyav") | {"npy": "numpy"}


def test_the_program_is_used_when_asked_for() -> None:
    assert check_available(resolve_format("mp4"), "ffmpeg") == "ffmpeg"


def test_a_codec_that_only_the_program_has_goes_to_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(program(tmp_path, "no_such_codec")))
    assert check_available(ALIEN, "auto") == "ffmpeg"
    with pytest.raises(UsageError, match=r"no_such_codec, which this PyAV lacks.*--encoder ffmpeg"):
        check_available(ALIEN, "pyav")


def test_a_codec_that_nobody_has_is_named_with_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path, "libx264")
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(path))
    with pytest.raises(UsageError) as caught:
        check_available(ALIEN, "auto")
    assert "no_such_codec" in str(caught.value)
    assert str(path) in str(caught.value)
    assert "mp4, webm, gif" in str(caught.value)


def test_a_program_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(tmp_path / "gone"))
    with pytest.raises(UsageError, match=r"gone.*IMAGEIO_FFMPEG_EXE"):
        check_available(resolve_format("mp4"), "ffmpeg")


def test_asking_about_formats_loads_no_heavy_library() -> None:
    code = "import sys, omni_cli.writers.write; print([m for m in ('numpy', 'av', 'PIL', 'torch', 'imageio_ffmpeg') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
