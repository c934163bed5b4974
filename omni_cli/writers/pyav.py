"""The default video encoder: FFmpeg's libraries in this process, through PyAV. One thread, one frame in hand at a time."""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from omni_cli.writers import gif
from omni_cli.writers.finalize import Frames
from omni_cli.writers.sound import Track
from omni_cli.writers.video import EncoderError, Put, VideoJob, rgb_frames

if TYPE_CHECKING:
    from av import VideoFrame
    from av.video.stream import VideoStream
    from numpy.typing import NDArray

_BT709 = 1  # AVCOL_PRI_BT709, AVCOL_TRC_BT709 and AVCOL_SPC_BT709 (ITU-T H.273)
_LIMITED = 1  # AVCOL_RANGE_MPEG


def encode(frames: Frames, target: Path, job: VideoJob) -> None:
    """See `video.VideoEncoder`."""
    if job.codec == "gif":
        with _muxing(target, job) as mux:
            for picture in gif.palette_pictures(frames, job):
                mux(picture)
        if job.comment is not None:
            gif.add_comment(target, job.comment)
        return
    with writing(target, job) as put:
        put(frames)


@contextmanager
def writing(target: Path, job: VideoJob) -> Iterator[Put]:
    """See `video.VideoEncoder`."""
    to_yuv = _yuv_converter(job)
    with _muxing(target, job) as mux:

        def put(frames: Frames) -> None:
            for frame in rgb_frames(frames, job.source):
                mux(to_yuv(frame))

        yield put


@contextmanager
def _muxing(target: Path, job: VideoJob) -> "Iterator[Callable[[VideoFrame], None]]":
    """What encodes the next picture into `target`, the sound beside it; at the end of the block the file is whole."""
    import av  # 40 MB of libraries: only where video is written

    _quiet(job.codec)
    # "file:" keeps libav from reading a protocol into a file's name.
    with (
        _libav_errors(job),
        av.open(f"file:{target}", "w", format=job.muxer, container_options=dict(job.muxer_options)) as container,
    ):
        if job.comment is not None and job.codec != "gif":
            container.metadata["comment"] = job.comment
        stream = cast("VideoStream", container.add_stream(job.codec, rate=job.rate, options=dict(job.codec_options)))
        _describe(stream, job)
        track = None
        if job.sound is not None and job.sound_codec is not None:
            track = Track.add(container, job.sound, job.sound_codec)
        numbers = itertools.count()

        def mux(picture: "VideoFrame") -> None:
            number = next(numbers)
            picture.pts, picture.time_base = number, 1 / job.rate
            with _libav_errors(job):
                container.mux(stream.encode(picture))
                if track is not None:
                    track.until((number + 1) / job.rate)

        yield mux
        container.mux(stream.encode(None))
        if track is not None:
            track.finish()


@contextmanager
def _libav_errors(job: VideoJob) -> Iterator[None]:
    """EncoderError for what libav raises, unless it is an error of the operating system."""
    import av  # see _muxing

    try:
        yield
    except av.error.FFmpegError as error:
        if isinstance(error, OSError):
            raise
        raise EncoderError(f"{job.codec}: {error.strerror or error}") from error


def _describe(stream: "VideoStream", job: VideoJob) -> None:
    """Size, clock, thread count and, for YUV, the four colour tags."""
    from av.codec.context import Flags  # see _muxing

    stream.width, stream.height, stream.pix_fmt = job.width, job.height, job.pixel_format
    context = stream.codec_context
    context.time_base = 1 / job.rate
    context.thread_count = 1
    context.flags |= Flags.bitexact
    if job.codec == "libx265" and job.muxer in ("mp4", "mov"):
        context.codec_tag = "hvc1"  # hev1, the default, is what QuickTime and Safari do not play
    if job.codec != "gif":
        context.color_primaries = context.color_trc = context.colorspace = _BT709
        context.color_range = _LIMITED


def _yuv_converter(job: VideoJob) -> "Callable[[NDArray[Any]], VideoFrame]":
    """What converts a frame from RGB to the job's YUV with the BT.709 matrix, limited range."""
    import av  # see _muxing
    from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter

    converter = VideoReformatter()

    def convert(frame: "NDArray[Any]") -> "VideoFrame":
        picture = converter.reformat(
            av.VideoFrame.from_ndarray(frame, format=job.source),
            format=job.pixel_format,
            dst_colorspace=Colorspace.ITU709,
            dst_color_range=ColorRange.MPEG,
            interpolation=Interpolation.BICUBIC,  # of the chroma; 0.2 to 0.7 dB over the default at the same cost
            threads=1,
        )
        picture.color_primaries = picture.color_trc = _BT709  # ProRes writes what the picture says, not the stream
        return picture

    return convert


def _quiet(codec: str) -> None:
    """SVT-AV1 prints its banner and advice on stderr, over the view; its one switch is the environment, read when it first starts."""
    if codec == "libsvtav1":
        os.environ.setdefault("SVT_LOG", "1")
