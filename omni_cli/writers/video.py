"""Video, planned once for every encoder: codec, pixel format, rate, tags, options, sound. The encoders behind `VideoEncoder` obey.

Colour: RGB is converted with the BT.709 matrix to limited range, and matrix, primaries, transfer and range are tagged so.
Size: never changed. H.264 and H.265 need even sides in 4:2:0, so an odd side is coded 4:4:4 (High 4:4:4 Predictive: mpv, VLC,
Chrome and all of ffmpeg play it, hardware decoders and Safari do not). VP9 and AV1 take any size in 4:2:0.
Depth: a layout of more than 8 bits is fed 16 bits of a level, from the floats where they are there.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from omni_cli.config import OUTPUT_TIMEOUT_S, OutputConfig
from omni_cli.writers.codecs import PRESETS, Choice, check_settings, choose, is_deep, pixel_format
from omni_cli.writers.finalize import Frames, Sound
from omni_cli.writers.formats import Format
from omni_cli.writers.metadata import Metadata

if TYPE_CHECKING:
    from numpy.typing import NDArray

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

# SVT-AV1 4's own warning: 10 and above is for "automation tooling", with visual artifacts. libaom's `cpu-used` has the same steps.
_AV1_SPEED = dict(zip(PRESETS, (9, 9, 8, 8, 7, 6, 5, 4, 3, 2), strict=True))
_NVENC_SPEED = dict(zip(PRESETS, (1, 1, 2, 3, 3, 4, 5, 6, 7, 7), strict=True))


class EncoderError(Exception):
    """An encoder refused or failed; the message is its own."""


@dataclass(frozen=True, slots=True)
class VideoJob:
    """What to encode and how. `rate` is frames per second; `codec_options` and `muxer_options` are libav's own names.

    `source` is the layout that frames are handed over in: rgb24, or rgb48le for more than 8 bits. `comment` goes into the
    container; None for no metadata. `sound` goes along, coded by `sound_codec`. `patience`: seconds for which a program that
    encodes may do nothing.
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
    source: str = "rgb24"
    sound: Sound | None = None
    sound_codec: str | None = None


Put = Callable[[Frames], None]
"""Encodes the next frames of a clip. EncoderError with the encoder's reason, or OSError."""


class VideoEncoder(Protocol):
    """The seam between a plan and the library or program that carries it out."""

    def encode(self, frames: Frames, target: Path, job: VideoJob) -> None:
        """Write `frames` to the existing file `target`. EncoderError with the encoder's reason, or OSError."""

    def writing(self, target: Path, job: VideoJob) -> AbstractContextManager[Put]:
        """The same frame by frame, for the formats of `formats.FRAME_STREAMS`: the file is whole when the block has ended.

        One thread at a time, whichever. After an error in the block, the file is worth nothing.
        """


def plan_video(frames: Frames, form: Format, fps: float, options: OutputConfig, metadata: Metadata | None) -> VideoJob:
    """The job for `frames` as `form` at `fps`. UsageError for an encoder preset, codec or layout that cannot be."""
    check_settings(options)
    choice = choose(form.name, form.codecs, options)
    gif = choice.codec.name == "gif"
    layout = pixel_format(choice.codec, None if gif else options.pix_fmt, frames.width, frames.height)
    muxer_options = {"fflags": "+bitexact"}
    if form.name in ("mp4", "mov"):
        muxer_options["movflags"] = "+faststart"
    assert form.muxer is not None
    return VideoJob(
        codec=choice.encoder,
        muxer=form.muxer,
        width=frames.width,
        height=frames.height,
        rate=frame_rate(fps),
        pixel_format=layout,
        codec_options=_codec_options(choice, layout, options),
        muxer_options=muxer_options,
        comment=_comment(form, metadata),
        patience=options.encoder_timeout,
        source="rgb48le" if is_deep(layout) else "rgb24",
        sound=frames.audio if form.sound else None,
        sound_codec=form.sound if frames.audio is not None else None,
    )


def _codec_options(choice: Choice, layout: str, options: OutputConfig) -> dict[str, str]:
    """libav's options of the encoder: quality, speed, and what makes it one thread and the same bytes every time."""
    crf, preset = {"crf": str(options.crf)}, options.encoder_preset
    match choice.encoder:
        case "libx264":
            return {**crf, "preset": preset, "x264-params": _REPRODUCIBLE}
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


def _comment(form: Format, metadata: Metadata | None) -> str | None:
    """The JSON document; a GIF's comment is ASCII."""
    if metadata is None:
        return None
    return metadata.ascii_document if form.name == "gif" else metadata.document


def frame_rate(fps: float) -> Fraction:
    """`fps` as the exact rate it means: 23.976 and 23.98 are 24000/1001, 29.97 is 30000/1001, 12.5 is 25/2."""
    for rate in NTSC:
        if any(math.isclose(fps, round(float(rate), digits), abs_tol=1e-9) for digits in range(2, 7)):
            return rate
    return Fraction(fps).limit_denominator(100_000)


def rgb_frames(frames: Frames, source: str = "rgb24") -> "Iterator[NDArray[Any]]":
    """Each frame as contiguous [H, W, 3], uint8 for rgb24 and uint16 for rgb48le; grey is repeated, one frame at a time."""
    parts = iter(frames) if source == "rgb24" else frames.deep()
    if frames.channels == 3:
        yield from parts
        return
    import numpy as np  # loaded by those who encode

    for frame in parts:
        yield np.repeat(frame, 3, axis=2)
