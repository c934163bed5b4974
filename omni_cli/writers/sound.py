"""Sound: coded alone into a file, or beside a video, at its own rate.

    float32 [C, S] ── planes of a second at most ── resample to what the codec takes ── encode ── mux

AAC and FLAC keep the rate; Opus knows five rates, and the next one up that it knows is taken: 44100 becomes 48000.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from omni_cli.writers.finalize import Sound
from omni_cli.writers.video import EncoderError

if TYPE_CHECKING:
    from av import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import OutputContainer

_BLOCK = 1 << 14
"""Samples that are handed over at a time."""

_BITRATE = {"aac": 192_000, "libopus": 160_000}
"""Bits per second of two channels: transparent for music in listening tests of either coder; halved for one channel."""

_LAYOUTS = {1: "mono", 2: "stereo", 3: "3.0", 4: "quad", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1"}


def encode_sound(sound: Sound, target: Path, muxer: str, codec: str, comment: str | None) -> None:
    """Write `sound` alone to the existing file `target`. EncoderError with the library's reason, or OSError."""
    import av  # 40 MB of libraries: only where sound is written

    try:
        options = {"fflags": "+bitexact"}
        with av.open(f"file:{target}", "w", format=muxer, container_options=options) as container:
            if comment is not None:
                container.metadata["comment"] = comment
            track = Track.add(container, sound, codec)
            track.finish()
    except av.error.FFmpegError as error:
        if isinstance(error, OSError):
            raise
        raise EncoderError(f"{codec}: {error.strerror or error}") from error


def layout_of(sound: Sound) -> str:
    """libav's name for this number of channels. EncoderError for more than there are names for."""
    if sound.channels not in _LAYOUTS:
        raise EncoderError(f"sound of {sound.channels} channels; formats for it: npy, npz, safetensors")
    return _LAYOUTS[sound.channels]


def bit_rate(codec: str, channels: int) -> int | None:
    """Bits per second for a lossy codec, None for a lossless one."""
    return _BITRATE[codec] * channels // 2 if codec in _BITRATE else None


def coded_rate(codec: str, sample_rate: int) -> int:
    """The rate that `codec` is given: the sound's own, or the next one up that it takes."""
    import av  # see encode_sound

    rates = sorted(av.codec.Codec(codec, "w").audio_rates or ())
    if not rates or sample_rate in rates:
        return sample_rate
    return next((rate for rate in rates if rate >= sample_rate), rates[-1])


@dataclass(slots=True)
class Track:
    """The sound of an open container, encoded as far as it has been asked for."""

    container: "OutputContainer"
    stream: "AudioStream"
    blocks: "Iterator[AudioFrame]"
    fed: int = 0

    @classmethod
    def add(cls, container: "OutputContainer", sound: Sound, codec: str) -> "Track":
        """Add a stream for `sound` to `container`, before anything is muxed."""
        from av.codec.context import Flags  # see encode_sound

        layout, rate = layout_of(sound), coded_rate(codec, sound.sample_rate)
        stream = cast("AudioStream", container.add_stream(codec, rate=rate))
        context = stream.codec_context
        context.layout = layout
        context.thread_count = 1
        context.flags |= Flags.bitexact
        if (bits := bit_rate(codec, sound.channels)) is not None:
            context.bit_rate = bits
        if codec == "flac":
            context.format = "s32"  # of which FLAC keeps the upper 24 bits
        return cls(container, stream, _blocks(sound, stream, layout, rate))

    def until(self, seconds: Fraction) -> None:
        """Encode and mux at least up to this time, so that sound and pictures lie beside each other in the file."""
        while self.fed < seconds * self.stream.rate and (block := next(self.blocks, None)) is not None:
            self.fed += block.samples
            self.container.mux(self.stream.encode(block))

    def finish(self) -> None:
        """Encode and mux all the rest."""
        for block in self.blocks:
            self.container.mux(self.stream.encode(block))
        self.container.mux(self.stream.encode(None))


def _blocks(sound: Sound, stream: "AudioStream", layout: str, rate: int) -> "Iterator[AudioFrame]":
    """`sound` in the sample format, the rate and the frame size that the encoder takes, timed from zero."""
    import numpy as np  # see encode_sound
    from av import AudioFrame, AudioResampler

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
    """Write `sound` as interleaved little-endian float32 to `file`, and go back to its start."""
    for start in range(0, sound.samples, _BLOCK):
        file.write(sound.array[:, start : start + _BLOCK].T.astype("<f4").tobytes())
    file.seek(0)
