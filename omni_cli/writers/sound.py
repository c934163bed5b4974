"""Sound, encoded alone into a file or beside a video, at its own rate.

    float32 [C, S] ── blocks of 16384 samples ── resample to what the codec takes ── encode ── mux

AAC and FLAC keep the rate. Opus knows five rates; the next higher one is used: 44100 becomes 48000.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, cast

import av
import numpy as np
from av import AudioFrame, AudioResampler
from av.audio.stream import AudioStream
from av.codec.context import Flags
from av.container import OutputContainer

from omni_cli.writers.samples import Sound
from omni_cli.writers.video import EncoderError, libav_errors

_BLOCK = 1 << 14
"""Samples per channel that are encoded at a time."""

_BITRATE = {"aac": 192_000, "libopus": 160_000}
"""Bits per second for two channels: transparent for music in listening tests of either codec; half for one channel."""

_LAYOUTS = {1: "mono", 2: "stereo", 3: "3.0", 4: "quad", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1"}


def encode_sound(sound: Sound, target: Path, muxer: str, codec: str, comment: str | None) -> None:
    """Write `sound` alone to the existing file `target`. Raises EncoderError with the library's reason, or OSError."""
    options = {"fflags": "+bitexact"}
    with (
        libav_errors(codec),
        av.open(f"file:{target}", "w", format=muxer, container_options=options) as container,
    ):
        if comment is not None:
            container.metadata["comment"] = comment
        Track.add(container, sound, codec).finish()


def channel_layout(sound: Sound) -> str:
    """Return libav's name for the number of channels. Raises EncoderError for more than eight."""
    if sound.channels not in _LAYOUTS:
        raise EncoderError(f"sound of {sound.channels} channels; formats for it: npy, npz, safetensors")
    return _LAYOUTS[sound.channels]


def bit_rate(codec: str, channels: int) -> int | None:
    """Return the bits per second for a lossy codec, None for a lossless one."""
    return _BITRATE[codec] * channels // 2 if codec in _BITRATE else None


def encoder_rate(codec: str, sample_rate: int) -> int:
    """Return the rate in Hz at which `codec` encodes: `sample_rate`, or the next higher one that it takes."""
    rates = sorted(av.codec.Codec(codec, "w").audio_rates or ())
    if not rates or sample_rate in rates:
        return sample_rate
    return next((rate for rate in rates if rate >= sample_rate), rates[-1])


@dataclass(slots=True)
class Track:
    """The sound stream of an open container. `encoded` is in samples per channel."""

    container: OutputContainer
    stream: AudioStream
    blocks: Iterator[AudioFrame]
    encoded: int = 0

    @classmethod
    def add(cls, container: OutputContainer, sound: Sound, codec: str) -> "Track":
        """Add a stream for `sound` to `container`, before anything is muxed. Raises EncoderError."""
        layout, rate = channel_layout(sound), encoder_rate(codec, sound.sample_rate)
        stream = cast(AudioStream, container.add_stream(codec, rate=rate))
        context = stream.codec_context
        context.layout = layout
        context.thread_count = 1
        context.flags |= Flags.bitexact
        if (bits := bit_rate(codec, sound.channels)) is not None:
            context.bit_rate = bits
        if codec == "flac":
            context.format = "s32"  # FLAC keeps the upper 24 bits
        return cls(container, stream, _resampled_blocks(sound, stream, layout, rate))

    def encode_until(self, seconds: Fraction) -> None:
        """Encode and mux at least up to this time, so that sound and pictures are interleaved in the file."""
        while self.encoded < seconds * self.stream.rate and (block := next(self.blocks, None)) is not None:
            self.encoded += block.samples
            self.container.mux(self.stream.encode(block))

    def finish(self) -> None:
        """Encode and mux the rest."""
        for block in self.blocks:
            self.container.mux(self.stream.encode(block))
        self.container.mux(self.stream.encode(None))


def _resampled_blocks(sound: Sound, stream: AudioStream, layout: str, rate: int) -> Iterator[AudioFrame]:
    """Yield `sound` in the encoder's sample format, rate and frame size, with times from zero."""
    context = stream.codec_context
    if not context.is_open:
        context.open()
    resampler = AudioResampler(
        format=context.format.name, layout=layout, rate=rate, frame_size=context.frame_size or None
    )
    clip = context.format.name not in ("flt", "fltp")
    for start in range(0, sound.samples, _BLOCK):
        part = sound.array[:, start : start + _BLOCK]
        planes = np.ascontiguousarray(np.clip(part, -1, 1) if clip else part)
        block = AudioFrame.from_ndarray(planes, format="fltp", layout=layout)
        block.sample_rate, block.pts, block.time_base = sound.sample_rate, start, Fraction(1, sound.sample_rate)
        yield from resampler.resample(block)
    yield from resampler.resample(None)


def write_raw(sound: Sound, file: IO[bytes]) -> None:
    """Write `sound` as interleaved little-endian float32 to `file` and rewind it."""
    for start in range(0, sound.samples, _BLOCK):
        file.write(sound.array[:, start : start + _BLOCK].T.astype("<f4").tobytes())
    file.seek(0)
