"""The one entry of this room: frames in, a file in place out.

check that the format can hold it ── encode into a hidden file ── fsync, hash, rename, fsync of the folder
└────────────────── Written.encode ──────────────────────────┘ └──────────── Written.write ────────────┘
"""

import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from omni_cli.config import OutputConfig
from omni_cli.disk import fault_named_in, lies_with_the_disk, reason
from omni_cli.errors import StorageFault, UsageError, WriteError
from omni_cli.media import Kind
from omni_cli.request import Interval, OutputFile
from omni_cli.writers import ffmpeg, image, pyav
from omni_cli.writers.finalize import Frames
from omni_cli.writers.formats import Format, check_available, check_fps, names_for, resolve_format
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.place import Pending, placing
from omni_cli.writers.video import EncoderError, VideoEncoder, plan_video

_VIDEO_ENCODERS: dict[str, VideoEncoder] = {"pyav": pyav.encode, "ffmpeg": ffmpeg.encode}


@dataclass(frozen=True, slots=True)
class Written:
    """A file in place, and when its encoding and its placement ran."""

    file: OutputFile
    encode: Interval
    write: Interval


def write_output(
    frames: Frames,
    path: Path,
    *,
    name: str,
    format: str,  # noqa: A002 - the request's own word
    fps: float | None,
    options: OutputConfig,
    metadata: Metadata | None = None,
) -> Written:
    """Encode `frames` and place them as `path`, which ends in `name`: POSIX, relative to the output folder, as the row has it.

    `format` is a format's name. `fps` is in frames per second and needed for every video that has a clock; for an image it is
    not looked at. Safe to call from any number of threads. Once this returns or raises, nothing of it reads the payload
    behind `frames`.

    Raises WriteError that names the file and the reason, StorageFault if it lies with the disk; then nothing has appeared under
    the name, and what was there stays. The output folder must exist: one that has gone is not made again.
    """
    started = time.monotonic()
    root = _root_of(path, name)
    try:
        form = resolve_format(format)
        fps = fps if frames.kind is Kind.VIDEO and Kind.VIDEO in form.kinds else None
        _check_holds(form, frames, fps)
        with placing(root, name) as pending:
            _encode(frames, pending, form, fps, options, metadata)
            encoded = time.monotonic()
            placed = pending.commit()
    except WriteError:
        raise
    except (OSError, ValueError, MemoryError, UsageError, EncoderError) as error:
        raise _failure(name, root, error) from error
    file = OutputFile(
        path=name,
        sha256=placed.sha256,
        bytes=placed.bytes,
        width=frames.width,
        height=frames.height,
        frames=len(frames),
        fps=fps,
    )
    return Written(file, Interval(started, encoded), Interval(encoded, time.monotonic()))


def _root_of(path: Path, name: str) -> Path:
    """The output folder: `path` without `name`. WriteError if that leaves none, as with an absolute name."""
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or path.parts[-len(parts) :] != parts:
        raise WriteError(f"{name!r} leads out of the output folder: {str(path)!r}; nothing was written")
    return Path(*path.parts[: -len(parts)])


def _check_holds(form: Format, frames: Frames, fps: float | None) -> None:
    """Raise UsageError unless `form` can hold `frames` unchanged: their number, colours, size and rate."""
    one_frame = len(frames) == 1
    if frames.kind not in form.kinds and not (Kind.IMAGE in form.kinds and one_frame):
        raise UsageError(
            f"format {form.name} cannot hold {frames.kind} output of {len(frames)} frames;"
            f" formats for {frames.kind}: {names_for(frames.kind)}"
        )
    if frames.color not in form.colors:
        raise UsageError(
            f"format {form.name} has no transparency, and dropping it would change the picture; {_alpha(frames.kind)}"
        )
    if max(frames.width, frames.height) > form.max_side:
        raise UsageError(
            f"format {form.name} ends at {form.max_side} pixels a side, this is {frames.width}x{frames.height}"
        )
    check_fps(form, fps)


def _alpha(kind: Kind) -> str:
    """Advice: the formats that keep transparency."""
    return "use png or webp" if kind is Kind.IMAGE else "use npy"


def _encode(
    frames: Frames, pending: Pending, form: Format, fps: float | None, options: OutputConfig, metadata: Metadata | None
) -> None:
    """Have the format's encoder write the pending file."""
    encoder = check_available(form, options.encoder)
    if form.codec is not None:
        assert fps is not None
        job = plan_video(frames, form, fps, options, metadata)
        _VIDEO_ENCODERS[encoder](frames, pending.temporary, job)
        return
    with open(pending.descriptor, "wb", closefd=False) as file:
        if encoder == "numpy":
            image.write_npy(file, frames)
        else:
            image.write_image(file, frames, form, options, metadata)


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
