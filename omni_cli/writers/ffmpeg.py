"""The second video encoder: an ffmpeg program fed through a pipe, imageio-ffmpeg's or the one in IMAGEIO_FFMPEG_EXE.

    frames ── pipe:0 ──> ffmpeg ──> target         stderr and metadata are files in memory, so no other pipe can fill up

A program that makes no progress for `VideoJob.stall_timeout` seconds is killed, so that it cannot block a writer for
good. It runs in its own session: Ctrl-C does not reach it and a file can be finished; it ends when its input is closed.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

from numpy.typing import NDArray

from omni_cli.storage.memory_file import memory_file
from omni_cli.writers import gif
from omni_cli.writers.codecs import ffmpeg_program
from omni_cli.writers.samples import Frames
from omni_cli.writers.sound import bit_rate, channel_layout, encoder_rate, write_raw
from omni_cli.writers.thread_scheduling import REAL_TIME_ENCODER, leave_real_time
from omni_cli.writers.video import EncodeFrames, EncoderError, VideoJob, iter_rgb

QUIT_S = 5.0
"""Seconds that a program which has closed its input may take to exit before it is killed."""

FeedResult = Literal["complete", "closed", "stalled"]
"""Outcome of feeding: all frames were taken, the program closed its input, or it stopped reading."""

_STDERR_BYTES = 4096
_STDERR_LINES = 6

_TAGS = ("-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv")
_TO_BT709 = "scale=out_color_matrix=bt709:out_range=tv:flags=bicubic,setparams=color_primaries=bt709:color_trc=bt709"
_PALETTE_OUT = ("-f", "rawvideo", "-pix_fmt", "bgra")


@contextlib.contextmanager
def open_stream(target: Path, job: VideoJob) -> Iterator[EncodeFrames]:
    """Implement `video.VideoEncoder.open_stream`."""
    with memory_file() as comment_file, memory_file() as sound_file:
        comment_input, comment_output = _comment_arguments(comment_file, job.comment)
        sound = _sound_arguments(sound_file, job, 1 if job.comment is None else 2)
        picture = ("-map", "0:v", "-vf", f"{_TO_BT709},format={job.pixel_format}", "-pix_fmt", job.pixel_format, *_TAGS)
        codec = ("-c:v", job.codec, "-threads:v", "1", *_options(job.codec_options, ":v"))
        tag = ("-tag:v", "hvc1") if job.codec == "libx265" and job.muxer in ("mp4", "mov") else ()
        output = (*picture, *codec, *tag, *_output_arguments(job, target))
        arguments = (*_raw_input(job), *comment_input, *sound, *comment_output, *output)
        pass_fds = (comment_file.fileno(), sound_file.fileno())
        with _run(arguments, job.stall_timeout, job.input_format, pass_fds, codec=job.codec) as encode_frames:
            yield encode_frames


def encode_gif(frames: Frames, target: Path, job: VideoJob) -> None:
    """Implement `video.VideoEncoder.encode_gif`.

    The program runs twice as in `gif`: a single run would hold every frame until the palette is complete.
    """
    with memory_file() as palette:
        generate = ("-vf", f"palettegen={gif.PALETTE_GEN}", "-frames:v", "1", *_PALETTE_OUT, "pipe:1")
        with _run((*_raw_input(job), *generate), job.stall_timeout, stdout=palette) as encode_frames:
            encode_frames(frames)
        palette.seek(0)
        side = str(gif.PALETTE_SIDE)
        colours = (*_PALETTE_OUT, "-video_size", f"{side}x{side}", "-i", f"pipe:{palette.fileno()}")
        use = ("-lavfi", f"[0:v][1:v]paletteuse={gif.PALETTE_USE}", "-c:v", job.codec, *_output_arguments(job, target))
        arguments = (*_raw_input(job), *colours, *use)
        with _run(arguments, job.stall_timeout, pass_fds=(palette.fileno(),)) as encode_frames:
            encode_frames(frames)


def _raw_input(job: VideoJob) -> tuple[str, ...]:
    """Return the arguments that describe the frames on stdin."""
    size, rate = f"{job.width}x{job.height}", f"{job.rate.numerator}/{job.rate.denominator}"
    return ("-f", "rawvideo", "-pix_fmt", job.input_format, "-video_size", size, "-framerate", rate, "-i", "pipe:0")


def _output_arguments(job: VideoJob, target: Path) -> tuple[str, ...]:
    """Return the arguments of the output file; "file:" keeps ffmpeg from reading a protocol or option into its name."""
    flags = ("-flags:v", "+bitexact", *_options(job.muxer_options))
    return (*flags, "-f", job.muxer, f"file:{target}")


def _options(options: Mapping[str, str], stream: str = "") -> tuple[str, ...]:
    """Return `-name value` for each of libav's options."""
    return tuple(argument for name, value in options.items() for argument in (f"-{name}{stream}", value))


def _comment_arguments(file: IO[bytes], comment: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write `comment` to `file` as ffmetadata, which has no limit of length (an argument ends at 128 KiB).

    Returns the arguments that name it as an input, and those that copy it to the output.
    """
    if comment is None:
        return (), ("-map_metadata", "-1")
    escaped = re.sub(r"([=;#\\\n])", r"\\\1", comment)
    file.write(f";FFMETADATA1\ncomment={escaped}\n".encode())
    file.seek(0)
    return ("-f", "ffmetadata", "-i", f"pipe:{file.fileno()}"), ("-map_metadata", "1")


def _sound_arguments(file: IO[bytes], job: VideoJob, input_number: int) -> tuple[str, ...]:
    """Write the sound to `file`; return the arguments that read and encode it, none for a silent job.

    Options between inputs belong to the next input: the raw sound's description comes first, the output's options last.
    """
    if job.sound is None or job.sound_codec is None:
        return ()
    channel_layout(job.sound)
    write_raw(job.sound, file)
    raw = ("-f", "f32le", "-ar", str(job.sound.sample_rate), "-ac", str(job.sound.channels))
    rate = encoder_rate(job.sound_codec, job.sound.sample_rate)
    codec = ("-map", f"{input_number}:a", "-c:a", job.sound_codec, "-ar", str(rate), "-flags:a", "+bitexact")
    bits = bit_rate(job.sound_codec, job.sound.channels)
    quality = ("-sample_fmt", "s32") if job.sound_codec == "flac" else () if bits is None else ("-b:a", str(bits))
    return (*raw, "-i", f"pipe:{file.fileno()}", *codec, *quality)


class _FeedingStopped(Exception):
    """The program takes no more frames; carries the reason from `_feed` through the caller's block to `_run`."""

    def __init__(self, result: FeedResult) -> None:
        super().__init__(result)
        self.result: FeedResult = result


@contextlib.contextmanager
def _run(
    arguments: Sequence[str],
    stall_timeout: float,
    input_format: str = "rgb24",
    pass_fds: tuple[int, ...] = (),
    *,
    codec: str = "",
    stdout: IO[bytes] | None = None,
) -> Iterator[EncodeFrames]:
    """Run ffmpeg while the block feeds it frames.

    Raises EncoderError with its exit status and last lines, OSError if it cannot be started.
    """
    fixed = ("-y", "-hide_banner", "-nostats", "-loglevel", "error", "-filter_threads", "1")
    command = [ffmpeg_program(), *fixed, *arguments]
    with memory_file() as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=stdout or subprocess.DEVNULL,
            stderr=stderr,
            bufsize=0,
            pass_fds=pass_fds,
            start_new_session=True,
        )
        try:
            result: FeedResult = "complete"
            try:
                pictures = partial(_pictures, process.pid, codec, input_format)
                yield lambda frames: _feed(process, pictures(frames), stall_timeout)
                _close_input(process)
            except _FeedingStopped as stopped:
                result = stopped.result
            timeout = {"complete": stall_timeout, "closed": QUIT_S, "stalled": 0.0}[result]
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                code = None
        finally:
            _terminate(process)
        if code != 0 or result != "complete":
            raise EncoderError(_failure_message(command[0], result, code, stall_timeout, stderr))


def _pictures(process: int, codec: str, input_format: str, frames: Frames) -> Iterator[NDArray[Any]]:
    """Yield every frame as RGB [H, W, 3]; the program may have opened its encoder when the next one is asked for."""
    for picture in iter_rgb(frames, input_format):
        yield picture
        if codec == REAL_TIME_ENCODER:
            leave_real_time(process)


def _feed(process: "subprocess.Popen[bytes]", pictures: Iterable[NDArray[Any]], stall_timeout: float) -> None:
    """Write every picture to the program's stdin.

    Raises _FeedingStopped if the program closes its input, or reads nothing for `stall_timeout` seconds.
    """
    assert process.stdin is not None
    pipe, writable = process.stdin, select.poll()
    os.set_blocking(pipe.fileno(), False)
    writable.register(pipe, select.POLLOUT)
    try:
        for picture in pictures:
            rest = picture.data.cast("B")
            while rest:
                if not writable.poll(stall_timeout * 1000):
                    raise _FeedingStopped("stalled")
                rest = rest[pipe.write(rest) or 0 :]
    except BrokenPipeError:
        raise _FeedingStopped("closed") from None


def _close_input(process: "subprocess.Popen[bytes]") -> None:
    """Signal the end of the frames. Raises _FeedingStopped if the program has closed its input before."""
    assert process.stdin is not None
    try:
        process.stdin.close()
    except BrokenPipeError:
        raise _FeedingStopped("closed") from None


def _terminate(process: "subprocess.Popen[bytes]") -> None:
    """Kill the program if it still runs, with the children of a wrapper around it: they share its process group."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _failure_message(
    program: str, result: FeedResult, code: int | None, stall_timeout: float, stderr: IO[bytes]
) -> str:
    """Describe how the program ended, with the last lines of its stderr."""
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - _STDERR_BYTES))
    lines = [line.strip() for line in stderr.read().decode(errors="replace").splitlines() if line.strip()]
    if result == "stalled":
        end = f"took no frame for {stall_timeout:g} s and was killed"
    elif code is None and result == "closed":
        end = "closed its input and did not exit"
    elif code is None:
        end = f"had every frame, was not done {stall_timeout:g} s later and was killed"
    elif code < 0:
        end = f"was ended by {signal.Signals(-code).name}"
    else:
        end = f"ended with exit code {code}"
    last_lines = "\n".join(lines[-_STDERR_LINES:])
    return f"{program} {end}: {last_lines or 'it printed nothing'}"
