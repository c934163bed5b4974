"""The formats: what each can hold, and whether what it needs is here. Data and look-ups; nothing heavy is imported early."""

import difflib
import functools
import math
import subprocess
from dataclasses import dataclass

from omni_cli.config import EncoderName
from omni_cli.errors import UsageError
from omni_cli.media import ColorModel, Kind

_IMAGE = frozenset({Kind.IMAGE})
_VIDEO = frozenset({Kind.VIDEO})
_OPAQUE = frozenset({ColorModel.RGB, ColorModel.GRAY})
_ALL = frozenset({ColorModel.RGB, ColorModel.RGBA, ColorModel.GRAY})


@dataclass(frozen=True, slots=True)
class Format:
    """One file format.

    `codec` is the libavcodec encoder that a video format needs, `feature` the part of Pillow that an image format needs.
    `max_side` is in pixels, `max_fps` in frames per second: above 50 a GIF's delay falls below the 20 ms that players honour.
    """

    name: str
    extension: str
    kinds: frozenset[Kind]
    colors: frozenset[ColorModel]
    codec: str | None = None
    feature: str | None = None
    max_side: int = 2**31 - 1
    max_fps: float = math.inf


FORMATS: tuple[Format, ...] = (
    Format("png", ".png", _IMAGE, _ALL, feature="zlib"),
    Format("jpeg", ".jpg", _IMAGE, _OPAQUE, feature="jpg", max_side=65500),
    Format("webp", ".webp", _IMAGE, _ALL, feature="webp", max_side=16383),
    Format("mp4", ".mp4", _VIDEO, _OPAQUE, codec="libx264", max_side=16384, max_fps=1000),
    Format("webm", ".webm", _VIDEO, _OPAQUE, codec="libvpx-vp9", max_side=16384, max_fps=1000),
    Format("gif", ".gif", _VIDEO, _OPAQUE, codec="gif", max_side=65535, max_fps=50),
    Format("npy", ".npy", _IMAGE | _VIDEO, _ALL),
)

_BY_NAME = {form.name: form for form in FORMATS} | {"jpg": FORMATS[1]}
_DEFAULTS = {Kind.IMAGE: "png", Kind.VIDEO: "mp4"}


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
    """The format that `kind` gets when nobody said: png, mp4. UsageError for audio, which no format here holds."""
    if kind not in _DEFAULTS:
        raise UsageError(f"no format can hold {kind} output")
    return _BY_NAME[_DEFAULTS[kind]]


def check_fps(form: Format, fps: float | None) -> None:
    """Raise UsageError unless `fps` (frames per second) is one that `form` can carry; formats without a clock take any."""
    if form.codec is None:
        return
    if fps is None:
        raise UsageError(f"format {form.name} needs fps: set it in the request or with --fps")
    if not (math.isfinite(fps) and 0 < fps <= form.max_fps):
        raise UsageError(f"format {form.name} takes fps above 0 and up to {form.max_fps:g}, not {fps:g}")


def check_available(form: Format, encoder: EncoderName = "auto") -> str:
    """Who will encode `form`: "numpy", "pillow", "pyav" or "ffmpeg".

    Raises UsageError that names the codec that is lacking, where it was looked for, and what to do.
    """
    if form.codec is not None:
        return _video_encoder(form.name, form.codec, encoder)
    if form.feature is None:
        return "numpy"
    from PIL import features  # kept out of --help and validate

    if not features.check(form.feature):
        raise UsageError(
            f"format {form.name} needs Pillow built with {form.feature}; this one is not. Use npy or another"
        )
    return "pillow"


def _video_encoder(name: str, codec: str, encoder: EncoderName) -> str:
    """ "pyav" or "ffmpeg", whichever was asked for and has `codec`; "auto" prefers PyAV."""
    if encoder != "ffmpeg" and pyav_has(codec):
        return "pyav"
    if encoder == "pyav":
        raise UsageError(f"format {name} needs the codec {codec}, which this PyAV lacks; try --encoder ffmpeg")
    program = ffmpeg_program()
    if codec in ffmpeg_encoders(program):
        return "ffmpeg"
    here = ", ".join(form.name for form in FORMATS if form.codec and pyav_has(form.codec)) or "none"
    raise UsageError(
        f"format {name} needs the codec {codec}, which {program} lacks; name another ffmpeg in IMAGEIO_FFMPEG_EXE,"
        f" or use a format that PyAV can encode here: {here}"
    )


def pyav_has(codec: str) -> bool:
    """True if PyAV's libraries hold an encoder called `codec`."""
    import av  # 40 MB of libraries: only where video is written

    try:
        av.Codec(codec, "w")
    except av.codec.codec.UnknownCodecError:
        return False
    return True


def ffmpeg_program() -> str:
    """Path of the ffmpeg program: the environment's IMAGEIO_FFMPEG_EXE, else the one that imageio-ffmpeg brings."""
    import imageio_ffmpeg  # only for those who use this encoder

    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError as error:
        raise UsageError(f"no ffmpeg program: {error}") from error


@functools.lru_cache(maxsize=4)
def ffmpeg_encoders(program: str) -> frozenset[str]:
    """Names of the encoders that `program` lists. UsageError if it cannot be run."""
    try:
        listing = subprocess.run(
            [program, "-hide_banner", "-encoders"],
            capture_output=True,
            timeout=60,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"the ffmpeg program {program!r} cannot be run: {error}; see IMAGEIO_FFMPEG_EXE") from error
    rows = (line.split() for line in listing.splitlines())
    return frozenset(row[1] for row in rows if len(row) > 1 and len(row[0]) == 6 and row[0].startswith("V"))
