"""The formats: what each can hold, and whether what it needs is here. Data and look-ups; nothing heavy is imported early."""

import difflib
import math
from dataclasses import dataclass

from omni_cli.config import OutputConfig
from omni_cli.errors import UsageError
from omni_cli.media import ColorModel, Kind
from omni_cli.writers.codecs import choose, codec_named, is_deep, pixel_format

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

    `codecs` are the names in `codecs` that a video format can hold, its default first; `feature` is the part of Pillow that a
    format needs. `sound` is libav's encoder of the sound beside a video or alone, "numpy" where it is kept as it is, None where
    there is no place for any. `max_side` is in pixels, `max_fps` in frames per second and finite for formats with a clock: above
    50 a GIF's delay falls below the 20 ms that players honour, above 90 that of the others below 11 ms.
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
        """True if an output is a folder of files."""
        return not self.extension

    @property
    def has_clock(self) -> bool:
        """True if the file itself says how fast it plays."""
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

FRAME_STREAMS = frozenset(form.name for form in FORMATS if form.codecs and form.name != "gif")
"""Formats whose encoders take frame after frame; a GIF's palette and an array's shape need all of them first."""

_BY_NAME = {form.name: form for form in FORMATS} | {"jpg": FORMATS[1]}
_DEFAULTS = {Kind.IMAGE: "png", Kind.VIDEO: "mp4", Kind.AUDIO: "wav"}


def names_for(kind: Kind) -> str:
    """Names of the formats that hold `kind`, for messages."""
    return ", ".join(form.name for form in FORMATS if kind in form.kinds)


def resolve_format(name: str, kind: Kind | None = None) -> Format:
    """The format called `name` (any case, with or without a leading dot; "jpg" is "jpeg"), which must hold `kind` if given.

    Raises UsageError that names the nearest format, or those that can hold `kind`.
    """
    form = _BY_NAME.get(name.lower().removeprefix("."))
    if form is None:
        near = difflib.get_close_matches(name.lower(), _BY_NAME, n=1)
        guess = f" (did you mean {near[0]}?)" if near else ""
        raise UsageError(f"unknown format {name!r}{guess}; there are: {', '.join(form.name for form in FORMATS)}")
    if kind is not None and kind not in form.kinds:
        raise UsageError(
            f"format {form.name} cannot hold {kind} output; formats for {kind}: {names_for(kind) or 'none'}"
        )
    return form


def default_format(kind: Kind) -> Format:
    """The format that `kind` gets when nobody said: png, mp4, wav. UsageError for latents, which have to be asked for."""
    if kind not in _DEFAULTS:
        raise UsageError(f"no format can hold {kind} output")
    return _BY_NAME[_DEFAULTS[kind]]


def check_fps(form: Format, fps: float | None) -> None:
    """Raise UsageError unless `fps` (frames per second) is one at which `form` can carry a video; formats without a clock take any."""
    if not form.has_clock:
        return
    if fps is None:
        raise UsageError(f"format {form.name} needs fps: set it in the request or with --fps")
    if not (math.isfinite(fps) and 0 < fps <= form.max_fps):
        raise UsageError(f"format {form.name} takes fps above 0 and up to {form.max_fps:g}, not {fps:g}")


def check_side(form: Format, options: OutputConfig, width: int, height: int) -> None:
    """Raise UsageError unless the video format can keep exactly this size in pixels, in the layout that `options` ask for."""
    codec = codec_named(options.codec or form.codecs[0]) if form.name != "gif" else None
    if codec is not None:
        pixel_format(codec, options.pix_fmt, width, height)


def floats_for(form: Format, options: OutputConfig) -> str:
    """What in the encoding of `form` has use for more than 8 bits of a level; "" if nothing has."""
    if form.name == "png16":
        return "16-bit PNG"
    if not form.codecs or form.name == "gif":
        return ""
    codec = codec_named(options.codec or form.codecs[0])
    layout = options.pix_fmt or codec.pixel_formats[0]
    return f"{codec.name} in {layout}" if is_deep(layout) else ""


def check_available(form: Format, options: OutputConfig = OutputConfig()) -> str:  # noqa: B008 - frozen
    """Who will encode `form`: "numpy", "pillow", "pyav" or "ffmpeg".

    Raises UsageError that names the codec that is lacking, where it was looked for, and what to do.
    """
    if form.codecs:
        return choose(form.name, form.codecs, options).by
    if form.name == "png16" or form.kinds == _AUDIO:
        return "pyav"
    if form.feature is None:
        return "numpy"
    from PIL import features  # kept out of --help and validate

    if not features.check(form.feature):
        raise UsageError(
            f"format {form.name} needs Pillow built with {form.feature}; this one is not. Use npy or another"
        )
    return "pillow"
