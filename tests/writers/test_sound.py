"""Sound in files: exact where the format is, at its own rate, and in sync with the pictures."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest

from omni_cli.config import OutputConfig
from omni_cli.errors import WriteError
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.output_target import OutputTarget
from omni_cli.writers.samples import Frames, Sound
from omni_cli.writers.write import WrittenFile, write_output

ENCODERS = ("pyav", "ffmpeg")


def tone(rate: int = 24000, samples: int = 30000, channels: int = 2) -> Sound:
    """Return a tone, another in each channel, with a click at 0.25 s and values that only float32 can hold."""
    time = np.arange(samples) / rate
    array = np.stack([np.sin(2 * np.pi * 220 * (c + 1) * time) * 0.2 for c in range(channels)]).astype(np.float32)
    array[:, rate // 4 : rate // 4 + 8] = 0.9
    array.flags.writeable = False
    return Sound(array, rate)


def write(
    sample: Frames | Sound, root: Path, form: str, metadata: Metadata | None = None, **options: object
) -> WrittenFile:
    settings = OutputConfig(**options)  # type: ignore[arg-type]
    return write_output(sample, OutputTarget(root, f"x.{form}", form, 8.0, settings, metadata))


def decode_sound(path: Path) -> tuple[np.ndarray, int, float]:
    """Return the sound as float32 [C, S], its rate in Hz, and the time of its first sample in seconds."""
    import av

    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        resampler = av.AudioResampler(format="fltp")
        blocks = [part for block in container.decode(stream) for part in resampler.resample(block)]
        blocks += resampler.resample(None)
        return np.concatenate([b.to_ndarray() for b in blocks], axis=1), stream.rate, float(blocks[0].time or 0)


@pytest.mark.parametrize(("form", "step"), [("wav", 0.0), ("wav16", 2.0**-15), ("flac", 2.0**-23)])
@pytest.mark.parametrize("channels", [1, 2, 6])
def test_sound_alone_is_exact_to_the_step_of_its_format(tmp_path: Path, form: str, step: float, channels: int) -> None:
    sound = tone(channels=channels)
    row = write(sound, tmp_path, form).file
    decoded, rate, start = decode_sound(tmp_path / f"x.{form}")
    assert (decoded.shape, rate, start) == (sound.array.shape, 24000, 0.0)
    assert np.abs(decoded - sound.array).max() <= step
    assert (row.sample_rate, row.samples, row.channels) == (24000, 30000, channels)
    assert (row.width, row.height, row.frames, row.fps) == (0, 0, 0, None)


def test_wav_keeps_values_beyond_full_scale_and_wav16_clips_them(tmp_path: Path) -> None:
    loud = Sound(np.full((1, 4000), 1.5, np.float32), 8000)
    write(loud, tmp_path, "wav")
    write(loud, tmp_path, "wav16")
    assert decode_sound(tmp_path / "x.wav")[0].max() == 1.5
    assert decode_sound(tmp_path / "x.wav16")[0].min() > 0.999


@pytest.mark.parametrize("form", ["wav", "flac"])
def test_file_has_the_metadata(tmp_path: Path, metadata: Callable[..., Metadata], form: str) -> None:
    import av

    write(tone(), tmp_path, form, metadata(prompt="regen, 雨"))
    with av.open(str(tmp_path / f"x.{form}")) as container:
        comment = {key.lower(): value for key, value in container.metadata.items()}["comment"]
    assert comment == metadata(prompt="regen, 雨").document


# (format, rate of the sound, rate in the file) in Hz. Opus always decodes at 48000.
MUXED = [
    ("mp4", 24000, 24000),
    ("mov", 44100, 44100),
    ("webm", 24000, 48000),
    ("webm", 44100, 48000),
    ("mkv", 16000, 16000),
]


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(("form", "rate", "file_rate"), MUXED)
def test_sound_beside_a_video_is_in_sync_within_one_audio_frame(
    clip: Callable[..., Frames],
    decode: Callable,
    metadata: Callable[..., Metadata],
    tmp_path: Path,
    form: str,
    rate: int,
    file_rate: int,
    encoder: str,
) -> None:
    sound = tone(rate, rate * 5 // 8)
    frames = replace(clip(64, 64, 5), audio=sound)
    row = write(frames, tmp_path, form, metadata(), encoder=encoder).file
    decoded, decoded_rate, start = decode_sound(tmp_path / f"x.{form}")
    assert decoded_rate == file_rate
    click = start + int(np.argmax(np.abs(decoded[0]) > 0.55)) / file_rate
    assert abs(click - 0.25) <= 1024 / rate
    assert abs(start + decoded.shape[1] / file_rate - 0.625) <= 2 * 1024 / rate
    both = min(decoded.shape[1], int(0.2 * file_rate))
    spectrum = np.abs(np.fft.rfft(decoded[1][:both]))
    assert abs(np.argmax(spectrum) * file_rate / both - 440) < 6
    assert (row.sample_rate, row.samples, row.channels) == (rate, rate * 5 // 8, 2)
    pictures = decode(tmp_path / f"x.{form}")
    assert (len(pictures.frames), pictures.fps) == (5, 8)
    assert pictures.comment == metadata().document


def test_pictures_and_sound_are_interleaved_in_the_file(clip: Callable[..., Frames], tmp_path: Path) -> None:
    import av

    write(replace(clip(64, 64, 33), audio=tone(8000, 33000, 1)), tmp_path, "mkv")
    with av.open(str(tmp_path / "x.mkv")) as container:
        kinds = [packet.stream.type for packet in container.demux() if packet.size]
    assert max(index for index, kind in enumerate(kinds) if kind == "audio") > kinds.index("video")
    runs = sum(1 for a, b in pairwise(kinds) if a != b)
    assert runs >= 10


def test_format_without_sound_notes_what_it_leaves_out(clip: Callable[..., Frames], tmp_path: Path) -> None:
    written = write(replace(clip(), audio=tone()), tmp_path, "gif")
    assert written.notes == ("the sound is left out: format gif has no place for it",)
    assert "sample_rate" not in msgspec.to_builtins(written.file)
    assert write(replace(clip(), audio=tone()), tmp_path, "mp4").notes == ()


@pytest.mark.parametrize(
    ("form", "reason"), [("mp4", "mp4 cannot hold audio output; formats for audio: wav, wav16"), ("flac", "")]
)
def test_sound_that_a_format_cannot_hold_is_refused(tmp_path: Path, form: str, reason: str) -> None:
    with pytest.raises(WriteError, match=reason or "sound of 9 channels; formats for it: npy, npz, safetensors"):
        write(tone(channels=9), tmp_path, form)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("encoder", ENCODERS)
def test_same_sound_gives_the_same_bytes(clip: Callable[..., Frames], tmp_path: Path, encoder: str) -> None:
    frames = replace(clip(), audio=tone())
    assert len({write(frames, tmp_path, "mp4", encoder=encoder).file.sha256 for _ in range(2)}) == 1
