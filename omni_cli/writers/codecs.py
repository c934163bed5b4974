"""Video codecs: what `--codec`, `--pix-fmt`, `--crf` and `--encoder-preset` mean for each, and whether it is here.

    --codec h265 ── Codec ── first encoder that PyAV or the ffmpeg program has ── Choice(encoder, by, pixel format)

Everything here is asked before a run; nothing heavy is imported before somebody asks.
"""

import difflib
import functools
import subprocess
from dataclasses import dataclass
from fractions import Fraction

from omni_cli.config import OutputConfig
from omni_cli.errors import UsageError

PIXEL_FORMATS = (
    *("yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "yuv422p10le", "yuv444p10le", "p010le"),
    *("yuv420p12le", "yuv422p12le", "yuv444p12le", "yuv444p16le"),
)
"""Layouts that RGB is converted to here: YUV, BT.709, limited range."""

PRESETS = (
    *("ultrafast", "superfast", "veryfast", "faster", "fast"),
    *("medium", "slow", "slower", "veryslow", "placebo"),
)
"""Words of `--encoder-preset`, x264's, fastest first; every codec with a speed has its own meaning for each."""


@dataclass(frozen=True, slots=True)
class Codec:
    """`name` is the word of `--codec`. `encoders` are libav's, the first that is here counts.

    `pixel_formats`: taken when nobody says one, the first that can hold the size. `odd`: takes odd sides in 4:2:0 and decodes at
    exactly that size. `max_crf`: None for a codec without such a number. `hardware`: being built in does not mean that it works.
    `min_width` is in pixels.
    """

    name: str
    encoders: tuple[str, ...]
    pixel_formats: tuple[str, ...] = ("yuv420p", "yuv444p")
    odd: bool = False
    min_width: int = 1
    max_crf: int | None = 51
    hardware: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """Who encodes what: `encoder` is libav's name, `by` is "pyav" or "ffmpeg"."""

    codec: Codec
    encoder: str
    by: str


_NVENC_FORMATS = ("yuv420p", "yuv444p")

CODECS: tuple[Codec, ...] = (
    Codec("h264", ("libx264",)),
    # x265 4.1's look-ahead reads and writes past its memory in pictures of 64 pixels and less: measured, a heap that is
    # corrupted at a width of 48, and other bytes every time at 64. From 65 up bytes are the same every time.
    Codec("h265", ("libx265",), min_width=65),
    Codec("av1", ("libsvtav1", "libaom-av1"), ("yuv420p",), odd=True, max_crf=63),
    Codec("vp9", ("libvpx-vp9",), ("yuv420p",), odd=True, max_crf=63),
    Codec("prores", ("prores_ks",), ("yuv422p10le", "yuv444p10le"), max_crf=None),
    Codec("ffv1", ("ffv1",), ("yuv444p16le",), max_crf=None),
    Codec("h264_nvenc", ("h264_nvenc",), _NVENC_FORMATS, hardware=True),
    Codec("hevc_nvenc", ("hevc_nvenc",), _NVENC_FORMATS, hardware=True),
    Codec("av1_nvenc", ("av1_nvenc",), ("yuv420p",), hardware=True),
    Codec("gif", ("gif",), ("pal8",), odd=True, max_crf=None),
)

_BY_NAME = {codec.name: codec for codec in CODECS}
_ALIASES = {"hevc": "h265", "avc": "h264", "x264": "h264", "x265": "h265"} | {
    encoder: codec.name for codec in CODECS for encoder in codec.encoders
}


def codec_named(name: str) -> Codec:
    """The codec that `--codec` means; libav's names count too. UsageError with the nearest name."""
    word = name.lower()
    codec = _BY_NAME.get(_ALIASES.get(word, word))
    if codec is None or codec.name == "gif":
        near = difflib.get_close_matches(word, _BY_NAME, n=1)
        guess = f" (did you mean {near[0]}?)" if near else ""
        names = ", ".join(codec.name for codec in CODECS if codec.name != "gif")
        raise UsageError(f"unknown codec {name!r}{guess}; there are: {names}")
    return codec


def check_settings(options: OutputConfig) -> None:
    """Raise UsageError for words and numbers that are wrong whatever is written: asked once, before a request is looked at."""
    if options.encoder_preset not in PRESETS:
        raise UsageError(f"unknown encoder preset {options.encoder_preset!r}; there are: {', '.join(PRESETS)}")
    if options.pix_fmt is not None and options.pix_fmt not in PIXEL_FORMATS:
        raise UsageError(f"unknown --pix-fmt {options.pix_fmt!r}; there are: {', '.join(PIXEL_FORMATS)}")
    if options.codec is not None:
        codec = codec_named(options.codec)
        if codec.max_crf is not None and not 0 <= options.crf <= codec.max_crf:
            raise UsageError(f"--crf {options.crf}: {codec.name} takes 0 to {codec.max_crf}")


def choose(container: str, codecs: tuple[str, ...], options: OutputConfig) -> Choice:
    """Who writes the format `container`, which holds `codecs`, as `options` ask.

    Raises UsageError that names what is lacking, where it was looked for, and what there is.
    """
    codec = _BY_NAME[codecs[0]]
    if options.codec is not None and codecs != ("gif",):
        codec = codec_named(options.codec)
        if codec.name not in codecs:
            raise UsageError(f"format {container} cannot hold {codec.name}; it holds {', '.join(codecs)}")
    choice = find_encoder(container, codec, codecs, options)
    if codec.name != "gif":
        _check_numbers(choice, options)
    return choice


def find_encoder(container: str, codec: Codec, codecs: tuple[str, ...], options: OutputConfig) -> Choice:
    """ "auto" prefers PyAV, then the program, for each of the codec's encoders in turn."""
    names = ", ".join(codec.encoders)
    for encoder in codec.encoders:
        if options.encoder != "ffmpeg" and pyav_has(encoder):
            return _working(Choice(codec, encoder, "pyav"))
    if options.encoder == "pyav":
        raise UsageError(f"format {container} needs the codec {names}, which this PyAV lacks; try --encoder ffmpeg")
    program = ffmpeg_program()
    for encoder in codec.encoders:
        if encoder in ffmpeg_encoders(program):
            return Choice(codec, encoder, "ffmpeg")
    here = ", ".join(name for name in codecs if any(pyav_has(e) for e in _BY_NAME[name].encoders)) or "none"
    raise UsageError(
        f"format {container} needs the codec {names}, which {program} lacks; name another ffmpeg in IMAGEIO_FFMPEG_EXE,"
        f" or give --codec one of those that PyAV can encode here: {here}"
    )


def _working(choice: Choice) -> Choice:
    """`choice`, unless it needs a chip that does not answer."""
    reason = hardware_fault(choice.encoder) if choice.codec.hardware else None
    if reason is not None:
        raise UsageError(
            f"codec {choice.codec.name} needs a GPU whose encoder answers, and here it does not ({reason}); use h264, h265 or av1"
        )
    return choice


def _check_numbers(choice: Choice, options: OutputConfig) -> None:
    """Raise UsageError for a `--crf` or `--pix-fmt` that the codec does not take."""
    codec = choice.codec
    if codec.max_crf is not None and not 0 <= options.crf <= codec.max_crf:
        raise UsageError(f"--crf {options.crf}: {codec.name} takes 0 to {codec.max_crf}")
    if options.pix_fmt is None:
        return
    known = [name for name in PIXEL_FORMATS if name in pixel_formats(choice.encoder, choice.by)]
    if options.pix_fmt not in known:
        raise UsageError(f"--pix-fmt {options.pix_fmt}: {choice.encoder} takes {', '.join(known)}")


def pixel_format(codec: Codec, wanted: str | None, width: int, height: int) -> str:
    """The layout for frames of this size: `wanted`, else the codec's first that keeps it. UsageError if none does."""
    if width < codec.min_width:
        raise UsageError(
            f"{codec.name} needs a width of {codec.min_width} pixels or more, and this is {width}; use h264 or av1"
        )
    for name in (wanted,) if wanted else codec.pixel_formats:
        if codec.odd or _fits(name, width, height):
            return name
    named = wanted or codec.pixel_formats[0]
    raise UsageError(
        f"{codec.name} in {named} needs even sides, and this is {width}x{height}; use --pix-fmt yuv444p or a codec that"
        f" takes any size: {', '.join(codec.name for codec in CODECS if codec.odd and codec.name != 'gif')}"
    )


def is_deep(name: str) -> bool:
    """True for a layout of more than 8 bits."""
    return name.endswith(("10le", "12le", "16le"))


def _fits(name: str, width: int, height: int) -> bool:
    """True if the chroma of this layout covers a picture of this size exactly."""
    halves_width = "444" not in name and name != "pal8"
    halves_height = "420" in name or name == "p010le"
    return not (halves_width and width % 2) and not (halves_height and height % 2)


def pyav_has(encoder: str) -> bool:
    """True if PyAV's libraries hold an encoder of this name."""
    import av  # 40 MB of libraries: only where video is written

    try:
        av.Codec(encoder, "w")
    except av.codec.codec.UnknownCodecError:
        return False
    return True


@functools.lru_cache(maxsize=16)
def hardware_fault(encoder: str) -> str | None:
    """Why PyAV cannot open this encoder here, None if it can."""
    import av  # see pyav_has

    context = av.CodecContext.create(encoder, "w")
    assert isinstance(context, av.VideoCodecContext)
    context.width, context.height, context.pix_fmt = 256, 256, "yuv420p"
    context.framerate = Fraction(8)
    try:
        context.open()
    except av.error.FFmpegError as error:
        return str(error.strerror or error)
    return None


@functools.lru_cache(maxsize=16)
def pixel_formats(encoder: str, by: str) -> tuple[str, ...]:
    """Layouts that `encoder` takes, as PyAV's libraries or the program say."""
    if by == "pyav":
        import av  # see pyav_has

        return tuple(form.name for form in av.Codec(encoder, "w").video_formats or ())
    listing = _asked(ffmpeg_program(), "-h", f"encoder={encoder}")
    found = (line.partition("pixel formats:")[2] for line in listing.splitlines())
    return tuple(name for line in found for name in line.split())


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
    rows = (line.split() for line in _asked(program, "-encoders").splitlines())
    return frozenset(row[1] for row in rows if len(row) > 1 and len(row[0]) == 6 and row[0].startswith("V"))


def _asked(program: str, *question: str) -> str:
    """What `program` answers. UsageError if it cannot be run."""
    try:
        return subprocess.run(
            [program, "-hide_banner", *question], capture_output=True, timeout=60, check=True, stdin=subprocess.DEVNULL
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"the ffmpeg program {program!r} cannot be run: {error}; see IMAGEIO_FFMPEG_EXE") from error
