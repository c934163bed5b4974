"""Video codecs: what `--codec`, `--pix-fmt`, `--crf` and `--encoder-preset` mean for each, and which are available.

    --codec h265 ── Codec ── first of its encoders in PyAV or the ffmpeg program ── EncoderChoice

All of this is checked before a run; heavy libraries are imported only when a codec is looked up.
"""

import functools
import subprocess
from dataclasses import dataclass
from fractions import Fraction

from omni_cli.config import OutputConfig
from omni_cli.errors import UsageError
from omni_cli.text import did_you_mean
from omni_cli.writers.library_probe import is_able

PIXEL_FORMATS = (
    *("yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "yuv422p10le", "yuv444p10le", "p010le"),
    *("yuv420p12le", "yuv422p12le", "yuv444p12le", "yuv444p16le"),
)
"""Layouts that RGB can be converted to: YUV, BT.709, limited range."""

PRESETS = (
    *("ultrafast", "superfast", "veryfast", "faster", "fast"),
    *("medium", "slow", "slower", "veryslow", "placebo"),
)
"""Values of `--encoder-preset`: x264's names, fastest first; `video` maps them to the speeds of other codecs."""


@dataclass(frozen=True, slots=True)
class Codec:
    """A value of `--codec`.

    `encoders`: libav's names; the first available one is used. `pixel_formats`: defaults; the first that can hold the
    frame size is used. `odd`: whether odd sides are possible in 4:2:0. `min_width` in pixels. `max_crf`: None for a
    codec without a CRF. `hardware`: being built in does not mean that the chip is there.
    """

    name: str
    encoders: tuple[str, ...]
    pixel_formats: tuple[str, ...] = ("yuv420p", "yuv444p")
    odd: bool = False
    min_width: int = 1
    max_crf: int | None = 51
    hardware: bool = False


@dataclass(frozen=True, slots=True)
class EncoderChoice:
    """The encoder for a codec. `encoder` is libav's name, `backend` is "pyav" or "ffmpeg"."""

    codec: Codec
    encoder: str
    backend: str


_NVENC_FORMATS = ("yuv420p", "yuv444p")

CODECS: tuple[Codec, ...] = (
    Codec("h264", ("libx264",)),
    # x265 4.1's look-ahead accesses memory out of bounds for widths up to 64: measured a corrupted heap at a width of
    # 48, and other bytes every time at 64. From 65 up bytes are the same every time.
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


def resolve_codec(name: str) -> Codec:
    """Return the codec for a value of `--codec`, libav's encoder names included.

    Raises UsageError with the nearest name.
    """
    lower = name.lower()
    codec = _BY_NAME.get(_ALIASES.get(lower, lower))
    if codec is None or codec.name == "gif":
        names = [codec.name for codec in CODECS if codec.name != "gif"]
        raise UsageError(f"unknown codec {name!r}; {did_you_mean(lower, names, 'known: ' + ', '.join(names))}")
    return codec


def check_encoder_settings(options: OutputConfig) -> None:
    """Raise UsageError for settings that are invalid for every format. Called once per run, before any request."""
    if options.encoder_preset not in PRESETS:
        raise UsageError(f"unknown encoder preset {options.encoder_preset!r}; there are: {', '.join(PRESETS)}")
    if options.pix_fmt is not None and options.pix_fmt not in PIXEL_FORMATS:
        raise UsageError(f"unknown --pix-fmt {options.pix_fmt!r}; there are: {', '.join(PIXEL_FORMATS)}")
    if options.codec is not None:
        _check_crf(resolve_codec(options.codec), options.crf)


def choose_encoder(container: str, codecs: tuple[str, ...], options: OutputConfig) -> EncoderChoice:
    """Choose the encoder for the format `container`, which can hold `codecs`, as `options` ask.

    Raises UsageError that names what is missing, where it was looked for, and the alternatives.
    """
    codec = _BY_NAME[codecs[0]]
    if options.codec is not None and codecs != ("gif",):
        codec = resolve_codec(options.codec)
        if codec.name not in codecs:
            raise UsageError(f"format {container} cannot hold {codec.name}; it holds {', '.join(codecs)}")
    choice = find_encoder(container, codec, codecs, options)
    if codec.name != "gif":
        _check_crf(codec, options.crf)
        _check_pixel_format(choice, options.pix_fmt)
    return choice


def find_encoder(container: str, codec: Codec, codecs: tuple[str, ...], options: OutputConfig) -> EncoderChoice:
    """Find an available encoder of `codec`; "auto" prefers PyAV's encoders to those of the ffmpeg program.

    Raises UsageError if there is none, with those of `codecs` that are available.
    """
    names = ", ".join(codec.encoders)
    for encoder in codec.encoders:
        if options.encoder != "ffmpeg" and has_pyav_encoder(encoder):
            if codec.hardware and (reason := hardware_fault(encoder)) is not None:
                raise UsageError(
                    f"codec {codec.name} needs a GPU whose encoder answers, and here it does not ({reason}); "
                    "use h264, h265 or av1"
                )
            return EncoderChoice(codec, encoder, "pyav")
    if options.encoder == "pyav":
        raise UsageError(f"format {container} needs the codec {names}, which this PyAV lacks; try --encoder ffmpeg")
    program = ffmpeg_program()
    for encoder in codec.encoders:
        if encoder in ffmpeg_encoders(program):
            return EncoderChoice(codec, encoder, "ffmpeg")
    available = [name for name in codecs if any(has_pyav_encoder(encoder) for encoder in _BY_NAME[name].encoders)]
    raise UsageError(
        f"format {container} needs the codec {names}, which {program} lacks; name another ffmpeg in IMAGEIO_FFMPEG_EXE,"
        f" or give --codec one of those that PyAV can encode here: {', '.join(available) or 'none'}"
    )


def _check_crf(codec: Codec, crf: int) -> None:
    if codec.max_crf is not None and not 0 <= crf <= codec.max_crf:
        raise UsageError(f"--crf {crf}: {codec.name} takes 0 to {codec.max_crf}")


def _check_pixel_format(choice: EncoderChoice, name: str | None) -> None:
    """Raise UsageError if the encoder does not take the `--pix-fmt` `name`."""
    if name is None:
        return
    known = [known for known in PIXEL_FORMATS if known in pixel_formats(choice.encoder, choice.backend)]
    if name not in known:
        raise UsageError(f"--pix-fmt {name}: {choice.encoder} takes {', '.join(known)}")


def choose_pixel_format(codec: Codec, wanted: str | None, width: int, height: int) -> str:
    """Return the layout for frames of this size: `wanted`, else the codec's first that can hold it unchanged.

    Raises UsageError if none can.
    """
    if width < codec.min_width:
        raise UsageError(
            f"{codec.name} needs a width of {codec.min_width} pixels or more, and this is {width}; use h264 or av1"
        )
    for name in (wanted,) if wanted else codec.pixel_formats:
        if codec.odd or _covers(name, width, height):
            return name
    raise UsageError(
        f"{codec.name} in {wanted or codec.pixel_formats[0]} needs even sides, and this is {width}x{height}; use"
        " --pix-fmt yuv444p or a codec that takes any size:"
        f" {', '.join(codec.name for codec in CODECS if codec.odd and codec.name != 'gif')}"
    )


def _covers(pixel_format: str, width: int, height: int) -> bool:
    """Return True if the subsampled chroma of `pixel_format` covers a picture of this size exactly."""
    halves_width = "444" not in pixel_format and pixel_format != "pal8"
    halves_height = "420" in pixel_format or pixel_format == "p010le"
    return not (halves_width and width % 2) and not (halves_height and height % 2)


def is_deep(pixel_format: str) -> bool:
    """Return True for a layout of more than 8 bits per channel."""
    return pixel_format.endswith(("10le", "12le", "16le"))


def has_pyav_encoder(encoder: str) -> bool:
    """Return True if PyAV's libraries have an encoder of this name."""
    return is_able("av", f"encoder {encoder}", functools.partial(_has_pyav_encoder, encoder))


def _has_pyav_encoder(encoder: str) -> bool:
    import av  # 40 MB of libraries: only where video is written

    try:
        av.Codec(encoder, "w")
    except av.codec.codec.UnknownCodecError:
        return False
    return True


@functools.lru_cache(maxsize=16)
def hardware_fault(encoder: str) -> str | None:
    """Return why PyAV cannot open this encoder on this machine, None if it can."""
    import av  # see has_pyav_encoder

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
def pixel_formats(encoder: str, backend: str) -> tuple[str, ...]:
    """Return the layouts that `encoder` takes according to PyAV's libraries or the ffmpeg program."""
    if backend == "pyav":
        import av  # see has_pyav_encoder

        return tuple(video_format.name for video_format in av.Codec(encoder, "w").video_formats or ())
    help_text = _run_ffmpeg(ffmpeg_program(), "-h", f"encoder={encoder}")
    lists = (line.partition("pixel formats:")[2] for line in help_text.splitlines())
    return tuple(name for names in lists for name in names.split())


def ffmpeg_program() -> str:
    """Return the path of ffmpeg: the environment's IMAGEIO_FFMPEG_EXE, else the one bundled with imageio-ffmpeg.

    Raises UsageError if there is none.
    """
    import imageio_ffmpeg  # only where this encoder is used

    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError as error:
        raise UsageError(f"no ffmpeg program: {error}") from error


@functools.lru_cache(maxsize=4)
def ffmpeg_encoders(program: str) -> frozenset[str]:
    """Return the names of the video encoders that `program` lists. Raises UsageError if it cannot be run."""
    rows = (line.split() for line in _run_ffmpeg(program, "-encoders").splitlines())
    return frozenset(row[1] for row in rows if len(row) > 1 and len(row[0]) == 6 and row[0].startswith("V"))


def _run_ffmpeg(program: str, *arguments: str) -> str:
    """Return the stdout of `program`. Raises UsageError if it cannot be run."""
    try:
        return subprocess.run(
            [program, "-hide_banner", *arguments], capture_output=True, timeout=60, check=True, stdin=subprocess.DEVNULL
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"the ffmpeg program {program!r} cannot be run: {error}; see IMAGEIO_FFMPEG_EXE") from error
