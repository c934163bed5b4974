"""The entry point of the room: a sample in, a complete file or folder under its final name out.

The encoders are imported by the functions that call them, so that importing the room loads no numpy, PIL or av.

check that the format can hold it ── encode into a hidden file ── hash, fsync, rename, fsync of the folder
└──────────────── WrittenFile.encode ────────────────────────┘ └────────── WrittenFile.write ────────────┘
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from msgspec import UNSET

from omni_cli.media import Kind
from omni_cli.request import Interval, OutputFile
from omni_cli.storage.atomic import PendingFile, PendingFolder, pending_file, pending_folder
from omni_cli.storage.digest import Digest
from omni_cli.writers.formats import Format, check_sample, file_fps, find_backend, resolve_format
from omni_cli.writers.output_target import OutputTarget, write_errors
from omni_cli.writers.samples import Frames, Sample, Sound
from omni_cli.writers.video import VideoEncoder, VideoJob, plan_video


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file in place and the intervals of its encoding and its placement. `notes`: what it could not hold."""

    file: OutputFile
    encode: Interval
    write: Interval
    notes: tuple[str, ...] = ()


def write_output(sample: Sample, target: OutputTarget) -> WrittenFile:
    """Encode `sample` and put it in place. Safe to call from any number of threads.

    The payload behind `sample` is not read after this returns or raises.

    Raises WriteError that names the file and the reason, StorageError for a fault of the disk. Then nothing has
    appeared under the name, and an older file is still there.
    """
    started = time.monotonic()
    with write_errors(target.root, target.name):
        form = resolve_format(target.format)
        target = replace(target, fps=file_fps(form, sample, target.fps))
        check_sample(form, sample, target.fps)
        if form.is_folder:
            with pending_folder(target.root, target.name) as folder:
                _encode_folder(sample, form, target, folder)
                encoded = time.monotonic()
                digest = folder.commit()
        else:
            with pending_file(target.root, target.name) as pending:
                _encode(sample, form, target, pending)
                encoded = time.monotonic()
                digest = pending.commit()
    leaves_sound_out = isinstance(sample, Frames) and sample.audio is not None and not form.sound
    return WrittenFile(
        _output_file(sample, form, target, digest),
        Interval(started, encoded),
        Interval(encoded, time.monotonic()),
        (f"the sound is left out: format {form.name} has no place for it",) if leaves_sound_out else (),
    )


def _output_file(sample: Sample, form: Format, target: OutputTarget, digest: Digest) -> OutputFile:
    """Return what the row records: the size of the picture, and the sound as far as the file holds it."""
    frames = sample if isinstance(sample, Frames) else None
    audio = sample if isinstance(sample, Sound) else frames.audio if frames and form.sound else None
    return OutputFile(
        path=target.name,
        sha256=digest.sha256,
        bytes=digest.bytes,
        width=frames.width if frames else 0,
        height=frames.height if frames else 0,
        frames=len(frames) if frames else 0,
        fps=target.fps,
        sample_rate=audio.sample_rate if audio else UNSET,
        samples=audio.samples if audio else UNSET,
        channels=audio.channels if audio else UNSET,
    )


def _encode_folder(sample: Sample, form: Format, target: OutputTarget, pending: PendingFolder) -> None:
    """Write a PNG per frame, and the sound, if any, as audio.wav. Raises EncoderError, UsageError or OSError."""
    from omni_cli.writers import image

    find_backend(form, target.options)
    assert isinstance(sample, Frames)
    image.write_frame_folder(pending.temporary, sample, target.options, target.metadata)
    if sample.audio is not None:
        from omni_cli.writers import sound

        sound.encode_sound(sample.audio, pending.temporary / "audio.wav", "wav", "pcm_f32le", None)


def _encode(sample: Sample, form: Format, target: OutputTarget, pending: PendingFile) -> None:
    """Encode `sample` into the pending file. Raises EncoderError, UsageError or OSError."""
    if form.codecs:
        assert isinstance(sample, Frames)
        assert target.fps is not None
        job = plan_video(sample, form, target.fps, target.options, target.metadata)
        _encode_video(sample, pending.temporary, job)
    elif form.kinds == {Kind.AUDIO}:
        from omni_cli.writers import sound

        assert isinstance(sample, Sound)
        assert form.muxer is not None
        assert form.sound is not None
        comment = None if target.metadata is None else target.metadata.document
        sound.encode_sound(sample, pending.temporary, form.muxer, form.sound, comment)
    else:
        with pending.open() as file:
            _encode_to_file(sample, form, target, file)


def video_encoder(job: VideoJob) -> VideoEncoder:
    """Return the encoder that carries out `job`."""
    from omni_cli.writers import ffmpeg, pyav

    return pyav if job.backend == "pyav" else ffmpeg


def _encode_video(frames: Frames, target: Path, job: VideoJob) -> None:
    """Encode a whole clip into the existing file `target`."""
    encoder = video_encoder(job)
    if job.codec != "gif":
        with encoder.open_stream(target, job) as encode_frames:
            encode_frames(frames)
        return
    from omni_cli.writers import gif

    encoder.encode_gif(frames, target, job)
    if job.comment is not None:
        gif.add_comment(target, job.comment)


def _encode_to_file(sample: Sample, form: Format, target: OutputTarget, file: BinaryIO) -> None:
    """Encode arrays or an image, whose encoders take an open file."""
    if find_backend(form, target.options) == "numpy":
        from omni_cli.writers import arrays

        arrays.write_arrays(file, form.name, sample, target.fps, target.metadata, target.options.float_arrays)
        return
    assert isinstance(sample, Frames)
    if form.name == "png16":
        from omni_cli.writers import png16

        png16.write_png16(file, sample, target.options.png_compression, target.metadata)
    else:
        from omni_cli.writers import image

        image.write_image(file, sample, form, target.options, target.metadata, target.fps)
