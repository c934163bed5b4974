"""File formats: what each can hold, who encodes it, and which settings shape its pixels. Imports nothing heavy."""

import math
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from typing import Any

from msgspec.structs import replace

import omni_cli
from omni_cli.config import OutputConfig
from omni_cli.errors import UsageError
from omni_cli.media import ColorModel, Kind
from omni_cli.request import GenerationRequest
from omni_cli.text import did_you_mean
from omni_cli.writers.codecs import choose_encoder, choose_pixel_format, is_deep, resolve_codec
from omni_cli.writers.library_probe import is_able
from omni_cli.writers.samples import Frames, Latent, Sample, Sound

_IMAGE = frozenset({Kind.IMAGE})
_VIDEO = frozenset({Kind.VIDEO})
_AUDIO = frozenset({Kind.AUDIO})
_OPAQUE = frozenset({ColorModel.RGB, ColorModel.GRAY})
_ALL = frozenset({ColorModel.RGB, ColorModel.RGBA, ColorModel.GRAY})
_NONE: frozenset[ColorModel] = frozenset()

_MP4 = ("h264", "h265", "av1", "vp9", "h264_nvenc", "hevc_nvenc", "av1_nvenc")
_MOV = ("h264", "h265", "prores", "h264_nvenc", "hevc_nvenc")
_MKV = ("h264", "h265", "av1", "vp9", "prores", "ffv1", "h264_nvenc", "hevc_nvenc", "av1_nvenc")
_WEBM = ("vp9", "av1", "av1_nvenc")

LATENT = "latent"


@dataclass(frozen=True, slots=True)
class Format:
    """One file format.

    `codecs`: names in `codecs.CODECS` that a video format can hold, the default first. `feature`: the part of Pillow
    that encodes the format. `sound`: libav's encoder for sound, "numpy" where it is stored as an array, None where
    sound cannot be stored. `max_side` in pixels. `max_fps` in frames per second, finite for a format with a clock:
    players do not honour GIF delays below 20 ms (50 fps), nor those of WebP and AVIF below 11 ms (90 fps).
    """

    name: str
    extension: str
    kinds: frozenset[Kind]
    colors: frozenset[ColorModel]
    codecs: tuple[str, ...] = ()
    feature: str | None = None
    muxer: str | None = None
    sound: str | None = None
    max_side: int = 2**31 - 1
    max_fps: float = math.inf

    @property
    def is_folder(self) -> bool:
        """Whether an output is a folder of files."""
        return not self.extension

    @property
    def has_clock(self) -> bool:
        """Whether the file itself stores a frame rate."""
        return math.isfinite(self.max_fps)


def _video(name: str, codecs: tuple[str, ...], sound: str, muxer: str | None = None) -> Format:
    return Format(
        name, f".{name}", _VIDEO, _OPAQUE, codecs, muxer=muxer or name, sound=sound, max_side=16384, max_fps=1000
    )


FORMATS: tuple[Format, ...] = (
    Format("png", ".png", _IMAGE, _ALL, feature="zlib"),
    Format("jpeg", ".jpg", _IMAGE, _OPAQUE, feature="jpg", max_side=65500),
    Format("webp", ".webp", _IMAGE | _VIDEO, _ALL, feature="webp", max_side=16383, max_fps=90),
    Format("avif", ".avif", _IMAGE | _VIDEO, _ALL, feature="avif", max_side=65535, max_fps=90),
    Format("png16", ".png", _IMAGE, _ALL),
    _video("mp4", _MP4, "aac"),
    _video("webm", _WEBM, "libopus"),
    _video("mov", _MOV, "aac"),
    _video("mkv", _MKV, "flac", "matroska"),
    Format("gif", ".gif", _VIDEO, _OPAQUE, ("gif",), muxer="gif", max_side=65535, max_fps=50),
    Format("frames", "", _VIDEO, _ALL, feature="zlib", sound="pcm_f32le"),
    Format("wav", ".wav", _AUDIO, _NONE, muxer="wav", sound="pcm_f32le"),
    Format("wav16", ".wav", _AUDIO, _NONE, muxer="wav", sound="pcm_s16le"),
    Format("flac", ".flac", _AUDIO, _NONE, muxer="flac", sound="flac"),
    Format("npy", ".npy", _IMAGE | _VIDEO | _AUDIO, _ALL),
    Format("npz", ".npz", _IMAGE | _VIDEO | _AUDIO, _ALL, sound="numpy"),
    Format("safetensors", ".safetensors", _IMAGE | _VIDEO | _AUDIO, _ALL, sound="numpy"),
    Format(LATENT, ".safetensors", _IMAGE | _VIDEO | _AUDIO, _ALL, sound="numpy"),
)

ARRAYS = frozenset({"npy", "npz", "safetensors"})
"""Formats that hold frames as arrays: of levels, or of floats with `OutputConfig.float_arrays`."""

VIDEO_CONTAINERS = frozenset(form.name for form in FORMATS if form.codecs and form.name != "gif")
"""Formats that are encoded frame after frame. A GIF's palette and an array's header need the whole clip first."""

_BY_NAME = {form.name: form for form in FORMATS} | {"jpg": FORMATS[1]}
_DEFAULTS = {Kind.IMAGE: "png", Kind.VIDEO: "mp4", Kind.AUDIO: "wav"}

_VIDEO_SETTINGS = ("codec", "crf", "encoder", "encoder_preset", "pix_fmt")
_IMAGE_SETTINGS = {"jpeg": ("quality",), "webp": ("quality",), "avif": ("quality",)}


def format_names(kind: Kind) -> str:
    """List the names of the formats that can hold `kind`, for messages."""
    return ", ".join(form.name for form in FORMATS if kind in form.kinds)


def resolve_format(name: str, kind: Kind | None = None) -> Format:
    """Return the format called `name` (any case, with or without a leading dot; "jpg" is "jpeg").

    Raises UsageError with the nearest name, or with the formats for `kind` if this one cannot hold it.
    """
    form = _BY_NAME.get(name.lower().removeprefix("."))
    if form is None:
        names = ", ".join(form.name for form in FORMATS)
        raise UsageError(f"unknown format {name!r}; {did_you_mean(name, _BY_NAME, f'known: {names}')}")
    if kind is not None and kind not in form.kinds:
        raise UsageError(
            f"format {form.name} cannot hold {kind} output; formats for {kind}: {format_names(kind) or 'none'}"
        )
    return form


def default_format(kind: Kind) -> Format:
    """Return the default format of `kind`: png, mp4 or wav. Raises UsageError for latents, which have none."""
    if kind not in _DEFAULTS:
        raise UsageError(f"no format can hold {kind} output")
    return _BY_NAME[_DEFAULTS[kind]]


def check_fps(form: Format, fps: float | None) -> None:
    """Raise UsageError unless `form` can store a video at `fps` frames per second."""
    if not form.has_clock:
        return
    if fps is None:
        raise UsageError(f"format {form.name} needs fps: set it in the request or with --fps")
    if not (math.isfinite(fps) and 0 < fps <= form.max_fps):
        raise UsageError(f"format {form.name} takes fps above 0 and up to {form.max_fps:g}, not {fps:g}")


def check_size(form: Format, options: OutputConfig, width: int, height: int) -> None:
    """Raise UsageError unless the video format can keep this size in pixels with the codec and layout of `options`."""
    if form.name != "gif":
        choose_pixel_format(resolve_codec(options.codec or form.codecs[0]), options.pix_fmt, width, height)


def check_sample(form: Format, sample: Sample, fps: float | None) -> None:
    """Raise UsageError unless `form` can hold `sample` unchanged: kind, number of frames, colours, size and rate."""
    if isinstance(sample, Latent) or form.name == LATENT:
        if not isinstance(sample, Latent) or form.name != LATENT:
            raise UsageError(
                f"format {form.name} does not match the pipeline's output: latents, and only they, need {LATENT}"
            )
        return
    if isinstance(sample, Sound):
        if Kind.AUDIO not in form.kinds:
            raise UsageError(
                f"format {form.name} cannot hold audio output; formats for audio: {format_names(Kind.AUDIO)}"
            )
        return
    one_frame = len(sample) == 1
    if sample.kind not in form.kinds and not (Kind.IMAGE in form.kinds and one_frame):
        raise UsageError(
            f"format {form.name} cannot hold {sample.kind} output of {len(sample)} frames;"
            f" formats for {sample.kind}: {format_names(sample.kind)}"
        )
    if sample.color not in form.colors:
        advice = "use png or webp" if sample.kind is Kind.IMAGE else "use webp, frames or npy"
        raise UsageError(f"format {form.name} has no transparency, and dropping it would change the picture; {advice}")
    if max(sample.width, sample.height) > form.max_side:
        raise UsageError(
            f"format {form.name} holds at most {form.max_side} pixels a side, got {sample.width}x{sample.height}"
        )
    if form.codecs or (sample.kind is Kind.VIDEO and Kind.VIDEO in form.kinds and not one_frame):
        check_fps(form, fps)


def file_fps(form: Format, sample: Sample, fps: float | None) -> float | None:
    """Return the frame rate of the file: `fps` of the pipeline times the interpolation; None where nothing moves."""
    if not isinstance(sample, Frames) or sample.kind is not Kind.VIDEO or Kind.VIDEO not in form.kinds or fps is None:
        return None
    return fps * sample.interpolated


def floats_for(form: Format, options: OutputConfig) -> str:
    """Name the part of the encoding of `form` that uses more than 8 bits per channel; "" if none does."""
    if form.name == "png16":
        return "16-bit PNG"
    if form.name in ARRAYS:
        return "float arrays" if options.float_arrays else ""
    if not form.codecs or form.name == "gif":
        return ""
    codec = resolve_codec(options.codec or form.codecs[0])
    layout = options.pix_fmt or codec.pixel_formats[0]
    return f"{codec.name} in {layout}" if is_deep(layout) else ""


def find_backend(form: Format, options: OutputConfig = OutputConfig()) -> str:  # noqa: B008 - frozen
    """Return the library or program that encodes `form`: "numpy", "pillow", "pyav" or "ffmpeg".

    Raises UsageError that names what is missing, where it was looked for, and what to do.
    """
    if form.codecs:
        return choose_encoder(form.name, form.codecs, options).backend
    if form.name == "png16" or form.kinds == _AUDIO:
        return "pyav"
    if form.feature is None:
        return "numpy"
    if not is_able("PIL", form.feature, partial(_has_pillow_feature, form.feature)):
        raise UsageError(
            f"format {form.name} needs Pillow built with {form.feature}; this one is not. Use npy or another"
        )
    return "pillow"


def _has_pillow_feature(name: str) -> bool:
    from PIL import features  # see library_probe

    return bool(features.check(name))


def has_quality(form: Format) -> bool:
    """Return True for a lossy format of images."""
    return "quality" in _IMAGE_SETTINGS.get(form.name, ())


def output_of(request: GenerationRequest, options: OutputConfig) -> OutputConfig:
    """Return the settings with which the files of `request` are written: its own where it has some, else `options`."""
    return options if request.quality is None else replace(options, quality=request.quality)


def encoding_settings(format_name: str, options: OutputConfig) -> dict[str, Any]:
    """Return the fields of `options` that change the decoded pixels of a format.

    Empty for lossless ones; rows of arrays have `float_arrays` only where it is on.
    """
    if format_name in ARRAYS:
        return {"float_arrays": True} if options.float_arrays else {}
    names = _VIDEO_SETTINGS if format_name in VIDEO_CONTAINERS else _IMAGE_SETTINGS.get(format_name, ())
    return {name: getattr(options, name) for name in names}


@cache
def encoder_versions() -> dict[str, str]:
    """Return the versions of this package and of the encoding libraries, as rows record them."""
    return {"omni-gen": omni_cli.__version__, "pillow": version("pillow"), "av": version("av")}
