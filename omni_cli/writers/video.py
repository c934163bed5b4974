"""Video, planned once for every encoder: codec, pixel format, rate, tags, options. The encoders behind `VideoEncoder` obey.

Colour: RGB is converted with the BT.709 matrix to limited range, and matrix, primaries, transfer and range are tagged so.
Size: never changed. 4:2:0 H.264 needs even sides, so an odd side is coded 4:4:4 (High 4:4:4 Predictive: mpv, VLC, Chrome and all
of ffmpeg play it, hardware decoders and Safari do not). VP9 takes any size in 4:2:0.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from omni_cli.config import OUTPUT_TIMEOUT_S, OutputConfig
from omni_cli.errors import UsageError
from omni_cli.writers.finalize import Frames
from omni_cli.writers.formats import Format
from omni_cli.writers.metadata import Metadata

if TYPE_CHECKING:
    from omni_cli.writers.finalize import Frame

NTSC = tuple(Fraction(1000 * rate, 1001) for rate in (24, 30, 48, 60, 120))

# libvpx's `deadline` and `cpu-used` for the names that x264 has made common. Measured on 480p at crf 18: real time 6 to 8 take
# 11 ms a frame (x264 veryfast: 8), good 4 takes 46 ms for a file a quarter smaller. Real time 5 is left out: it moves flat
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

# Without it, x264's AVX-512 macroblock-tree reads memory that it has not written: the same frames gave other bytes, and other
# pixels, after other encoders had run in the process. With it, bytes are the same on every CPU, at the same speed.
_REPRODUCIBLE = "cpu-independent=1"

PRESETS = tuple(_VP9_SPEED)


class EncoderError(Exception):
    """An encoder refused or failed; the message is its own."""


@dataclass(frozen=True, slots=True)
class VideoJob:
    """What to encode and how. `rate` is frames per second; `codec_options` and `muxer_options` are libav's own names.

    `comment` goes into the container; None for no metadata. `patience`: seconds for which a program that encodes may do nothing.
    """

    codec: str
    muxer: str
    width: int
    height: int
    rate: Fraction
    pixel_format: str
    codec_options: Mapping[str, str] = field(default_factory=dict)
    muxer_options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    patience: float = OUTPUT_TIMEOUT_S


class VideoEncoder(Protocol):
    """The seam between a plan and the library or program that carries it out."""

    def __call__(self, frames: Frames, target: Path, job: VideoJob) -> None:
        """Write `frames` to the existing file `target`. EncoderError with the encoder's reason, or OSError."""


def plan_video(frames: Frames, form: Format, fps: float, options: OutputConfig, metadata: Metadata | None) -> VideoJob:
    """The job for `frames` as `form` at `fps`. UsageError for an encoder preset that does not exist."""
    if options.encoder_preset not in _VP9_SPEED:
        raise UsageError(f"unknown encoder preset {options.encoder_preset!r}; there are: {', '.join(PRESETS)}")
    assert form.codec is not None
    muxer_options = {"fflags": "+bitexact"}
    codec_options: dict[str, str] = {}
    pixel_format = "yuv420p"
    if form.codec == "libx264":
        muxer_options["movflags"] = "+faststart"
        codec_options = {"crf": str(options.crf), "preset": options.encoder_preset, "x264-params": _REPRODUCIBLE}
        if frames.width % 2 or frames.height % 2:
            pixel_format = "yuv444p"
    elif form.codec == "libvpx-vp9":
        deadline, speed = _VP9_SPEED[options.encoder_preset]
        codec_options = {"crf": str(options.crf), "b": "0", "deadline": deadline, "cpu-used": str(speed)}
    else:
        pixel_format = "pal8"
    return VideoJob(
        codec=form.codec,
        muxer=form.name,
        width=frames.width,
        height=frames.height,
        rate=frame_rate(fps),
        pixel_format=pixel_format,
        codec_options=codec_options,
        muxer_options=muxer_options,
        comment=_comment(form, metadata),
        patience=options.encoder_timeout,
    )


def _comment(form: Format, metadata: Metadata | None) -> str | None:
    """The JSON document; a GIF's comment is ASCII."""
    if metadata is None:
        return None
    return metadata.ascii_document if form.codec == "gif" else metadata.document


def frame_rate(fps: float) -> Fraction:
    """`fps` as the exact rate it means: 23.976 and 23.98 are 24000/1001, 29.97 is 30000/1001, 12.5 is 25/2."""
    for rate in NTSC:
        if any(math.isclose(fps, round(float(rate), digits), abs_tol=1e-9) for digits in range(2, 7)):
            return rate
    return Fraction(fps).limit_denominator(100_000)


def rgb_frames(frames: Frames) -> "Iterator[Frame]":
    """Each frame as contiguous uint8 [H, W, 3]; grey is repeated over the channels, one frame at a time."""
    if frames.channels == 3:
        yield from frames
        return
    import numpy as np  # loaded by those who encode

    for frame in frames:
        yield np.repeat(frame, 3, axis=2)
