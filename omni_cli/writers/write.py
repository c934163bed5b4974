"""The one entry of this room: an output in, a file or a folder in place out.

check that the format can hold it ── encode into a hidden file ── fsync, hash, rename, fsync of the folder
└────────────────── Written.encode ──────────────────────────┘ └──────────── Written.write ────────────┘
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from msgspec import UNSET

from omni_cli.config import OutputConfig
from omni_cli.disk import fault_named_in, lies_with_the_disk, reason
from omni_cli.errors import StorageFault, UsageError, WriteError
from omni_cli.media import Kind
from omni_cli.request import Interval, OutputFile
from omni_cli.writers import arrays, ffmpeg, folder, image, png16, pyav, sound
from omni_cli.writers.finalize import Frames, Latent, Sample, Sound
from omni_cli.writers.formats import LATENT, Format, check_available, check_fps, names_for, resolve_format
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.place import Pending, PendingFolder, Placed, placing, placing_folder
from omni_cli.writers.video import EncoderError, VideoEncoder, plan_video

VIDEO_ENCODERS: dict[str, VideoEncoder] = {"pyav": pyav, "ffmpeg": ffmpeg}


@dataclass(frozen=True, slots=True)
class Written:
    """A file in place, and when its encoding and its placement ran. `notes` say what it does not hold."""

    file: OutputFile
    encode: Interval
    write: Interval
    notes: tuple[str, ...] = ()


def write_output(
    sample: Sample,
    path: Path,
    *,
    name: str,
    format: str,  # noqa: A002 - the request's own word
    fps: float | None,
    options: OutputConfig,
    metadata: Metadata | None = None,
) -> Written:
    """Encode `sample` and place it as `path`, which ends in `name`: POSIX, relative to the output folder, as the row has it.

    `format` is a format's name. `fps` is that of the pipeline's own frames, in frames per second, and needed for every video that
    has a clock; for an image it is not looked at. Safe to call from any number of threads. Once this returns or raises,
    nothing of it reads the payload behind `sample`.

    Raises WriteError that names the file and the reason, StorageFault if it lies with the disk; then nothing has appeared under
    the name, and what was there stays. The output folder must exist: one that has gone is not made again.
    """
    started = time.monotonic()
    root = root_of(path, name)
    with write_errors(name, root):
        form = resolve_format(format)
        rate = _rate(sample, form, fps)
        check_holds(form, sample, rate)
        encode = _Encoding(sample, form, rate, options, metadata)
        if form.is_folder:
            with placing_folder(root, name) as whole:
                encode.into_folder(whole)
                encoded = time.monotonic()
                placed = whole.commit()
        else:
            with placing(root, name) as pending:
                encode.into(pending)
                encoded = time.monotonic()
                placed = pending.commit()
    return Written(
        _row(name, placed, sample, form, rate),
        Interval(started, encoded),
        Interval(encoded, time.monotonic()),
        _left_out(sample, form),
    )


@contextmanager
def write_errors(name: str, root: Path) -> Iterator[None]:
    """Whatever an encoder or the system raises becomes a WriteError about the file `name`."""
    try:
        yield
    except WriteError:
        raise
    except (OSError, ValueError, MemoryError, UsageError, EncoderError) as error:
        raise _failure(name, root, error) from error


def _rate(sample: Sample, form: Format, fps: float | None) -> float | None:
    """Frames per second of the file: the pipeline's, times what interpolation made of each frame; None where nothing moves."""
    if not isinstance(sample, Frames) or sample.kind is not Kind.VIDEO or Kind.VIDEO not in form.kinds or fps is None:
        return None
    return fps * sample.interpolated


def _row(name: str, placed: Placed, sample: Sample, form: Format, fps: float | None) -> OutputFile:
    """What the row says of `sample`: its picture, and its sound as far as the file holds it."""
    heard = sample if isinstance(sample, Sound) else sample.audio if isinstance(sample, Frames) and form.sound else None
    seen = sample if isinstance(sample, Frames) else None
    return OutputFile(
        path=name,
        sha256=placed.sha256,
        bytes=placed.bytes,
        width=seen.width if seen else 0,
        height=seen.height if seen else 0,
        frames=len(seen) if seen else 0,
        fps=fps,
        sample_rate=heard.sample_rate if heard else UNSET,
        samples=heard.samples if heard else UNSET,
        channels=heard.channels if heard else UNSET,
    )


def _left_out(sample: Sample, form: Format) -> tuple[str, ...]:
    """What the file does not hold, for the row."""
    silent = isinstance(sample, Frames) and sample.audio is not None and not form.sound
    return (f"the sound is left out: format {form.name} has no place for it",) if silent else ()


def root_of(path: Path, name: str) -> Path:
    """The output folder: `path` without `name`. WriteError if that leaves none, as with an absolute name."""
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or path.parts[-len(parts) :] != parts:
        raise WriteError(f"{name!r} leads out of the output folder: {str(path)!r}; nothing was written")
    return Path(*path.parts[: -len(parts)])


def check_holds(form: Format, sample: Sample, fps: float | None) -> None:
    """Raise UsageError unless `form` can hold `sample` unchanged: its kind, number of frames, colours, size and rate."""
    if isinstance(sample, Latent) or form.name == LATENT:
        if not isinstance(sample, Latent) or form.name != LATENT:
            raise UsageError(f"format {form.name} and what the pipeline gave do not go together: latents need {LATENT}")
        return
    if isinstance(sample, Sound):
        if Kind.AUDIO not in form.kinds:
            raise UsageError(f"format {form.name} cannot hold audio output; formats for audio: {names_for(Kind.AUDIO)}")
        return
    one_frame = len(sample) == 1
    if sample.kind not in form.kinds and not (Kind.IMAGE in form.kinds and one_frame):
        raise UsageError(
            f"format {form.name} cannot hold {sample.kind} output of {len(sample)} frames;"
            f" formats for {sample.kind}: {names_for(sample.kind)}"
        )
    if sample.color not in form.colors:
        raise UsageError(
            f"format {form.name} has no transparency, and dropping it would change the picture; {_alpha(sample.kind)}"
        )
    if max(sample.width, sample.height) > form.max_side:
        raise UsageError(
            f"format {form.name} ends at {form.max_side} pixels a side, this is {sample.width}x{sample.height}"
        )
    if form.codecs or (sample.kind is Kind.VIDEO and Kind.VIDEO in form.kinds and not one_frame):
        check_fps(form, fps)


def _alpha(kind: Kind) -> str:
    """Advice: the formats that keep transparency."""
    return "use png or webp" if kind is Kind.IMAGE else "use webp, frames or npy"


@dataclass(frozen=True, slots=True)
class _Encoding:
    """One output on its way into a hidden file or folder."""

    sample: Sample
    form: Format
    fps: float | None
    options: OutputConfig
    metadata: Metadata | None

    def into_folder(self, pending: PendingFolder) -> None:
        """A picture per frame."""
        check_available(self.form, self.options)
        assert isinstance(self.sample, Frames)
        folder.write_folder(pending.temporary, self.sample, self.options, self.metadata)

    def into(self, pending: Pending) -> None:
        """Have the format's encoder write the pending file."""
        encoder, sample, form = check_available(self.form, self.options), self.sample, self.form
        if isinstance(sample, Sound) and form.muxer is not None:
            assert form.sound is not None
            comment = None if self.metadata is None else self.metadata.document
            sound.encode_sound(sample, pending.temporary, form.muxer, form.sound, comment)
            return
        if form.codecs:
            assert isinstance(sample, Frames)
            assert self.fps is not None
            job = plan_video(sample, form, self.fps, self.options, self.metadata)
            VIDEO_ENCODERS[encoder].encode(sample, pending.temporary, job)
            return
        self._write(pending)

    def _write(self, pending: Pending) -> None:
        """The formats that are written through an open file."""
        sample, form = self.sample, self.form
        with open(pending.descriptor, "wb", closefd=False) as file:
            match form.name:
                case "npy":
                    arrays.write_npy(file, sample)
                case "npz":
                    arrays.write_npz(file, sample, self.fps, self.metadata)
                case "safetensors" | "latent":
                    arrays.write_safetensors(file, sample, self.fps, self.metadata)
                case "png16":
                    assert isinstance(sample, Frames)
                    png16.write_png16(file, sample, self.options.png_compression, self.metadata)
                case _:
                    assert isinstance(sample, Frames)
                    image.write_image(file, sample, form, self.options, self.metadata, self.fps)


def _failure(name: str, root: Path, error: Exception) -> WriteError:
    """What went wrong with the file `name`, for people, and whether it is the disk's fault."""
    text = f"{name!r} was not written: "
    if isinstance(error, EncoderError) and (fault := fault_named_in(str(error))) is not None:
        return StorageFault(f"{text}{reason(fault, root)}: {error}")
    if isinstance(error, MemoryError):
        return WriteError(f"{text}out of memory")
    if not isinstance(error, OSError) or error.errno is None:
        return WriteError(f"{text}{str(error) or type(error).__name__}")
    kind = StorageFault if lies_with_the_disk(error, root) else WriteError
    return kind(f"{text}{reason(error, root)}")
