"""The second video encoder: an ffmpeg program fed through a pipe; imageio-ffmpeg's, or the one in IMAGEIO_FFMPEG_EXE.

    frames ── pipe:0 ──> ffmpeg ──> target          stderr and metadata are unlinked files: nothing here can fill a pipe

A program that does nothing for `VideoJob.patience` seconds is killed: a writer must not hang on it for good. The program gets its own session, so a Ctrl-C meant for this one lets a file be finished; it ends when its pipe does.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Literal

from omni_cli.writers import gif
from omni_cli.writers.codecs import ffmpeg_program
from omni_cli.writers.finalize import Frames
from omni_cli.writers.sound import bit_rate, coded_rate, layout_of, write_raw
from omni_cli.writers.video import EncoderError, Put, VideoJob, rgb_frames

QUIT_S = 5.0
"""How long a program that has closed its pipe may take to leave before it is killed."""

Fed = Literal["whole", "closed", "stalled"]
"""How the frames went: all of them, the program closed its input, or it stopped reading."""

_STDERR_BYTES = 4096
_STDERR_LINES = 6

_TAGS = ("-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv")
_TO_BT709 = "scale=out_color_matrix=bt709:out_range=tv:flags=bicubic,setparams=color_primaries=bt709:color_trc=bt709"
_PALETTE_OUT = ("-f", "rawvideo", "-pix_fmt", "bgra")


def encode(frames: Frames, target: Path, job: VideoJob) -> None:
    """See `video.VideoEncoder`."""
    if job.codec == "gif":
        _encode_gif(frames, target, job)
        return
    with writing(target, job) as put:
        put(frames)


@contextlib.contextmanager
def writing(target: Path, job: VideoJob) -> Iterator[Put]:
    """See `video.VideoEncoder`."""
    with tempfile.TemporaryFile() as notes, tempfile.TemporaryFile() as sound:
        noted, kept = _note_input(notes, job.comment)
        heard = _sound_input(sound, job, 1 if job.comment is None else 2)
        picture = ("-map", "0:v", "-vf", f"{_TO_BT709},format={job.pixel_format}", "-pix_fmt", job.pixel_format, *_TAGS)
        codec = ("-c:v", job.codec, "-threads:v", "1", *_options(job.codec_options, ":v"))
        tag = ("-tag:v", "hvc1") if job.codec == "libx265" and job.muxer in ("mp4", "mov") else ()
        output = (*picture, *codec, *tag, *_muxer(job, target))
        arguments = (*_raw_input(job), *noted, *heard, *kept, *output)
        descriptors = (notes.fileno(), sound.fileno())
        with _running(arguments, job.patience, source=job.source, pass_fds=descriptors) as put:
            yield put


def _encode_gif(frames: Frames, target: Path, job: VideoJob) -> None:
    """Two runs, as in `gif`: the palette, then the clip with it; a single run would keep every frame until the palette is made."""
    with tempfile.TemporaryFile() as palette:
        making = ("-vf", f"palettegen={gif.PALETTE_GEN}", "-frames:v", "1", *_PALETTE_OUT, "pipe:1")
        with _running((*_raw_input(job), *making), job.patience, stdout=palette) as put:
            put(frames)
        palette.seek(0)
        side = str(gif.PALETTE_SIDE)
        colours = (*_PALETTE_OUT, "-video_size", f"{side}x{side}", "-i", f"pipe:{palette.fileno()}")
        use = ("-lavfi", f"[0:v][1:v]paletteuse={gif.PALETTE_USE}", "-c:v", job.codec, *_muxer(job, target))
        with _running((*_raw_input(job), *colours, *use), job.patience, pass_fds=(palette.fileno(),)) as put:
            put(frames)
    if job.comment is not None:
        gif.add_comment(target, job.comment)


def _raw_input(job: VideoJob) -> tuple[str, ...]:
    """Arguments that describe what comes through the pipe."""
    size, rate = f"{job.width}x{job.height}", f"{job.rate.numerator}/{job.rate.denominator}"
    return ("-f", "rawvideo", "-pix_fmt", job.source, "-video_size", size, "-framerate", rate, "-i", "pipe:0")


def _muxer(job: VideoJob, target: Path) -> tuple[str, ...]:
    """Arguments of the output file. "file:" keeps the program from reading a protocol or an option into the name."""
    flags = ("-flags:v", "+bitexact", *_options(job.muxer_options))
    return (*flags, "-f", job.muxer, f"file:{target}")


def _options(options: Mapping[str, str], stream: str = "") -> tuple[str, ...]:
    """`-name value` for each of libav's options."""
    return tuple(word for name, value in options.items() for word in (f"-{name}{stream}", value))


def _note_input(notes: IO[bytes], comment: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write the container's comment as an ffmetadata file, of any length (an argument ends at 128 KiB).

    Gives the arguments that name it as an input, and those that keep it in the output.
    """
    if comment is None:
        return (), ("-map_metadata", "-1")
    escaped = re.sub(r"([=;#\\\n])", r"\\\1", comment)
    notes.write(f";FFMETADATA1\ncomment={escaped}\n".encode())
    notes.seek(0)
    return ("-f", "ffmetadata", "-i", f"pipe:{notes.fileno()}"), ("-map_metadata", "1")


def _sound_input(file: IO[bytes], job: VideoJob, number: int) -> tuple[str, ...]:
    """Write the sound to `file`, name it as input `number`, and say how it is coded; nothing for a silent job.

    Options between inputs belong to the next one: the raw sound's description comes first, the output's options last.
    """
    if job.sound is None or job.sound_codec is None:
        return ()
    layout_of(job.sound)
    write_raw(job.sound, file)
    raw = ("-f", "f32le", "-ar", str(job.sound.sample_rate), "-ac", str(job.sound.channels))
    rate = coded_rate(job.sound_codec, job.sound.sample_rate)
    coded = ("-map", f"{number}:a", "-c:a", job.sound_codec, "-ar", str(rate), "-flags:a", "+bitexact")
    bits = bit_rate(job.sound_codec, job.sound.channels)
    form = ("-sample_fmt", "s32") if job.sound_codec == "flac" else () if bits is None else ("-b:a", str(bits))
    return (*raw, "-i", f"pipe:{file.fileno()}", *coded, *form)


class _Broken(Exception):
    """The program takes no more frames; the block that feeds it passes this on."""

    def __init__(self, fed: Fed) -> None:
        super().__init__(fed)
        self.fed: Fed = fed


@contextlib.contextmanager
def _running(
    arguments: Sequence[str],
    patience: float,
    *,
    source: str = "rgb24",
    stdout: IO[bytes] | None = None,
    pass_fds: tuple[int, ...] = (),
) -> Iterator[Put]:
    """Run the program while the block feeds it frames. EncoderError with its exit and last words, OSError if it cannot be started."""
    command = [
        ffmpeg_program(),
        "-y",
        "-hide_banner",
        "-nostats",
        "-loglevel",
        "error",
        "-filter_threads",
        "1",
        *arguments,
    ]
    with tempfile.TemporaryFile() as stderr:
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
            fed: Fed = "whole"
            try:
                yield lambda frames: _feed(process, frames, source, patience)
                _close_input(process)
            except _Broken as broken:
                fed = broken.fed
            code = _exit_code(process, {"whole": patience, "closed": QUIT_S, "stalled": 0.0}[fed])
        finally:
            _end(process)
        if code != 0 or fed != "whole":
            raise EncoderError(_last_words(command[0], fed, code, patience, stderr))


def _feed(process: "subprocess.Popen[bytes]", frames: Frames, source: str, patience: float) -> None:
    """Write every frame. _Broken if the program closes its input first, or takes nothing for `patience` seconds."""
    assert process.stdin is not None
    pipe, room = process.stdin, select.poll()
    os.set_blocking(pipe.fileno(), False)
    room.register(pipe, select.POLLOUT)
    try:
        for frame in rgb_frames(frames, source):
            rest = frame.data.cast("B")
            while rest:
                if not room.poll(patience * 1000):
                    raise _Broken("stalled")
                rest = rest[pipe.write(rest) or 0 :]
    except BrokenPipeError:
        raise _Broken("closed") from None


def _close_input(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    try:
        process.stdin.close()
    except BrokenPipeError:
        raise _Broken("closed") from None


def _exit_code(process: "subprocess.Popen[bytes]", timeout: float) -> int | None:
    """The program's exit code, negative for a signal; None if it is still there after `timeout` seconds."""
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        return None


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Leave nothing of the program running: it, and what a wrapper around it started, are one process group."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_words(program: str, fed: Fed, code: int | None, patience: float, stderr: IO[bytes]) -> str:
    """How the program ended and the last lines it wrote to stderr."""
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - _STDERR_BYTES))
    lines = [line.strip() for line in stderr.read().decode(errors="replace").splitlines() if line.strip()]
    words = "\n".join(lines[-_STDERR_LINES:])
    if fed == "stalled":
        end = f"took no frame for {patience:g} s and was killed"
    elif code is None and fed == "closed":
        end = "closed its input and did not leave"
    elif code is None:
        end = f"had every frame, was not done {patience:g} s later and was killed"
    elif code < 0:
        end = f"was ended by {signal.Signals(-code).name}"
    else:
        end = f"ended with exit code {code}"
    return f"{program} {end}: {words or 'it said nothing'}"
