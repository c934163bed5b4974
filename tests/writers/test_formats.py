"""Formats: names, defaults, what each can hold, and what encodes it."""

import subprocess
import sys

import pytest

from omni_cli.errors import UsageError
from omni_cli.media import Kind
from omni_cli.prompts import FORMATS as PROMPT_FORMATS
from omni_cli.writers.formats import FORMATS, check_fps, default_format, find_backend, resolve_format


@pytest.mark.parametrize(
    ("spelling", "name"),
    [("PNG", "png"), (".mp4", "mp4"), ("jpg", "jpeg"), ("JPEG", "jpeg"), ("npy", "npy"), ("Wav16", "wav16")],
)
def test_names_resolve_in_any_case_and_by_alias(spelling: str, name: str) -> None:
    assert resolve_format(spelling).name == name


def test_unknown_format_suggests_the_nearest_one() -> None:
    with pytest.raises(UsageError, match=r'unknown format \'mp44\'; did you mean "mp4"\?'):
        resolve_format("mp44")


def test_format_that_cannot_hold_the_kind_lists_those_that_can() -> None:
    with pytest.raises(
        UsageError, match="png cannot hold video output; formats for video: webp, avif, mp4, webm, mov, mkv, gif, "
    ):
        resolve_format("png", Kind.VIDEO)
    with pytest.raises(
        UsageError, match="gif cannot hold image output; formats for image: png, jpeg, webp, avif, png16, npy, "
    ):
        resolve_format("gif", Kind.IMAGE)
    assert resolve_format("npy", Kind.VIDEO) is resolve_format("npy", Kind.IMAGE)


def test_defaults_are_png_mp4_and_wav_and_latents_have_none() -> None:
    assert [default_format(kind).extension for kind in (Kind.IMAGE, Kind.VIDEO, Kind.AUDIO)] == [".png", ".mp4", ".wav"]
    with pytest.raises(UsageError, match="latent"):
        default_format(Kind.LATENT)


@pytest.mark.parametrize("fps", [None, 0.0, -8.0, float("nan"), float("inf"), 51.0])
def test_gif_refuses_rates_that_players_do_not_keep(fps: float | None) -> None:
    with pytest.raises(UsageError, match="fps"):
        check_fps(resolve_format("gif"), fps)


def test_formats_without_a_clock_need_no_fps() -> None:
    check_fps(resolve_format("png"), None)
    check_fps(resolve_format("npy"), None)
    check_fps(resolve_format("gif"), 50.0)


def test_every_format_is_available_here() -> None:
    encoders = {form.name: find_backend(form) for form in FORMATS}
    pillow, pyav = ("png", "jpeg", "webp", "avif", "frames"), ("mp4", "webm", "mov", "mkv", "gif", "png16")
    sound, arrays = ("wav", "wav16", "flac"), ("npy", "npz", "safetensors", "latent")
    assert encoders == dict.fromkeys(pillow, "pillow") | dict.fromkeys(pyav + sound, "pyav") | dict.fromkeys(
        arrays, "numpy"
    )


def test_prompt_file_may_name_every_format() -> None:
    assert {name for name in PROMPT_FORMATS if name != "jpg"} == {form.name for form in FORMATS}


def test_importing_the_writers_loads_no_heavy_library() -> None:
    heavy = ("numpy", "av", "PIL", "torch", "imageio_ffmpeg")
    code = f"import sys, omni_cli.writers; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
