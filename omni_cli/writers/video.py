"""Video jobs: codec, pixel format, rate, tags, options and sound, planned once for every encoder.

Colour: RGB is converted with the BT.709 matrix to limited range; matrix, primaries, transfer and range are tagged.
Size: never changed. H.264 and H.265 need even sides in 4:2:0, so an odd side is coded 4:4:4 (High 4:4:4 Predictive:
mpv, VLC, Chrome and all of ffmpeg play it, hardware decoders and Safari do not). VP9 and AV1 take any size in 4:2:0.
Depth: a layout of more than 8 bits is fed 16 bits per channel, from floats where the payload has them.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from omni_cli.config import OutputConfig
from omni_cli.writers.codecs import (
    PRESETS,
    EncoderChoice,
    check_encoder_settings,
    choose_encoder,
    choose_pixel_format,
    is_deep,
)
from omni_cli.writers.formats import Format
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.samples import Frames, Sound

if TYPE_CHECKING:
    from numpy.typing import NDArray

NTSC = tuple(Fraction(1000 * rate, 1001) for rate in (24, 30, 48, 60, 120))

# libvpx's `deadline` and `cpu-used` for x264's preset names. Measured on 480p at crf 18: real time 6 to 8 take 11 ms a
# frame (x264 veryfast: 8), good 4 takes 46 ms for a file a quarter smaller. Real time 5 is left out: it moves flat
# colours by up to 5 levels, the others by 2 at most.
_VP9_SPEED = {
    "ultrafast": ("realtime", 8),
    "superfast": ("realtime", 7),
    "veryfast": ("realtime", 6),
    "faster": ("good", 4),
    "fast": ("good", 3),
    "medium": ("good", 2),
    "slow": ("good", 1),
    "slower": ("good", 0),
    "veryslow": ("best", 0),
    "placebo": ("best", 0),
}

# Without it, x264's AVX-512 macroblock-tree reads uninitialized memory: the same frames gave other bytes, and other
# pixels, after other encoders had run in the process. With it, bytes are the same on every CPU, at the same speed.
_X264_REPRODUCIBLE = "cpu-independent=1"

# SVT-AV1 4 warns that 10 and above is for "automation tooling", with visual artifacts. libaom's `cpu-used` has the same
# steps.
_AV1_SPEED = dict(zip(PRESETS, (9, 9, 8, 8, 7, 6, 5, 4, 3, 2), strict=True))
_NVENC_SPEED = dict(zip(PRESETS, (1, 1, 2, 3, 3, 4, 5, 6, 7, 7), strict=True))


class EncoderError(Exception):
    """An encoder refused or failed; the message is the encoder's."""


@contextmanager
def libav_errors(codec: str) -> Iterator[None]:
    """Raise EncoderError for an error of libav in the block, unless it is one of the operating system."""
    import av  # loaded by encoders only

    try:
        yield
    except av.error.FFmpegError as error:
        if isinstance(error, OSError):
            raise
        raise EncoderError(f"{codec}: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class VideoJob:
    """Everything an encoder needs besides the frames.

    `backend`: "pyav" or "ffmpeg". `codec` and `sound_codec`: libav's names of the encoders. `rate`: frames per second.
    `codec_options` and `muxer_options`: libav's own names. `input_format`: "rgb24" (uint8) or "rgb48le" (uint16).
    `stall_timeout`: seconds that an encoder process may make no progress.
    """

    backend: str
    codec: str
    muxer: str
    width: int
    height: int
    rate: Fraction
    pixel_format: str
    input_format: str
    codec_options: Mapping[str, str]
    muxer_options: Mapping[str, str]
    stall_timeout: float
    comment: str | None
    sound: Sound | None
    sound_codec: str | None


EncodeFrames = Callable[[Frames], None]
"""Encodes the next frames of a clip. Raises EncoderError with the encoder's reason, or OSError."""


class VideoEncoder(Protocol):
    """Carries out a VideoJob with a library or a program: the modules `pyav` and `ffmpeg`."""

    def open_stream(self, target: Path, job: VideoJob) -> AbstractContextManager[EncodeFrames]:
        """Open the existing file `target` for frames that come in pieces, for `formats.VIDEO_CONTAINERS`.

        The file is complete when the block ends, and useless after an error in it. One thread may use it at a time.
        Raises EncoderError with the encoder's reason, or OSError.
        """

    def encode_gif(self, frames: Frames, target: Path, job: VideoJob) -> None:
        """Write the whole clip to the existing file `target`, without its comment. Raises as `open_stream`."""


def plan_video(frames: Frames, form: Format, fps: float, options: OutputConfig, metadata: Metadata | None) -> VideoJob:
    """Plan how to encode `frames` as `form` at `fps` frames per second.

    Raises UsageError for a preset, codec or pixel format that is not possible.
    """
    check_encoder_settings(options)
    choice = choose_encoder(form.name, form.codecs, options)
    is_gif = choice.codec.name == "gif"
    layout = choose_pixel_format(choice.codec, None if is_gif else options.pix_fmt, frames.width, frames.height)
    muxer_options = {"fflags": "+bitexact"}
    if form.name in ("mp4", "mov"):
        muxer_options["movflags"] = "+faststart"
    assert form.muxer is not None
    comment = None
    if metadata is not None:
        comment = metadata.ascii_document if is_gif else metadata.document
    return VideoJob(
        backend=choice.backend,
        codec=choice.encoder,
        muxer=form.muxer,
        width=frames.width,
        height=frames.height,
        rate=frame_rate(fps),
        pixel_format=layout,
        codec_options=_codec_options(choice, layout, options),
        muxer_options=muxer_options,
        comment=comment,
        stall_timeout=options.encoder_timeout,
        input_format="rgb48le" if is_deep(layout) else "rgb24",
        sound=frames.audio if form.sound else None,
        sound_codec=form.sound if frames.audio is not None else None,
    )


def _codec_options(choice: EncoderChoice, layout: str, options: OutputConfig) -> dict[str, str]:
    """Return libav's options for quality and speed, and for one thread and reproducible bytes."""
    crf, preset = {"crf": str(options.crf)}, options.encoder_preset
    match choice.encoder:
        case "libx264":
            return {**crf, "preset": preset, "x264-params": _X264_REPRODUCIBLE}
        case "libx265":
            return {**crf, "preset": preset, "x265-params": "log-level=error:pools=none:frame-threads=1"}
        case "libvpx-vp9":
            deadline, speed = _VP9_SPEED[preset]
            return {**crf, "b": "0", "deadline": deadline, "cpu-used": str(speed)}
        case "libsvtav1":
            return {**crf, "preset": str(_AV1_SPEED[preset]), "svtav1-params": "lp=1"}
        case "libaom-av1":
            return {**crf, "b": "0", "cpu-used": str(min(8, _AV1_SPEED[preset]))}
        case "prores_ks":
            return {"profile": "4444" if "444" in layout else "hq", "vendor": "apl0"}
        case "ffv1":
            return {"level": "3", "slicecrc": "1"}
        case name if name.endswith("_nvenc"):
            return {"rc": "vbr", "cq": str(options.crf), "b": "0", "preset": f"p{_NVENC_SPEED[preset]}"}
    return {}


def frame_rate(fps: float) -> Fraction:
    """Return the exact rate that `fps` stands for: 23.976 and 23.98 are 24000/1001, 12.5 is 25/2."""
    for rate in NTSC:
        if any(math.isclose(fps, round(float(rate), digits), abs_tol=1e-9) for digits in range(2, 7)):
            return rate
    return Fraction(fps).limit_denominator(100_000)


def iter_rgb(frames: Frames, input_format: str = "rgb24") -> "Iterator[NDArray[Any]]":
    """Yield each frame as contiguous [H, W, 3], uint8 for rgb24 and uint16 for rgb48le; grey is repeated to RGB."""
    parts = iter(frames) if input_format == "rgb24" else frames.iter_uint16()
    if frames.channels == 3:
        yield from parts
        return
    import numpy as np  # loaded by encoders only

    for frame in parts:
        yield np.repeat(frame, 3, axis=2)
