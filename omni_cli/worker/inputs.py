"""Input files of a request: images and clips, read into what diffusers takes."""

from pathlib import Path

import av
from PIL import Image, ImageOps, UnidentifiedImageError

from omni_cli.errors import ForwardError


def read_image(path: str, field: str) -> Image.Image:
    """The picture in `path` as RGB, upright (EXIF orientation applied); ForwardError names the field and the file."""
    return _read(path, field, "RGB")


def read_mask(path: str, field: str) -> Image.Image:
    """The mask in `path` as grey levels, white where the pipeline is to paint; ForwardError names the field and the file."""
    return _read(path, field, "L")


def read_video(path: str, field: str) -> list[Image.Image]:
    """All frames of the clip in `path`, in order, as RGB pictures; ForwardError names the field and the file."""
    source = _existing(path, field)
    try:
        with av.open(str(source)) as container:
            if not container.streams.video:
                raise ForwardError(f"{field} {path!r}: the file has no video stream")
            frames: list[Image.Image] = [frame.to_image() for frame in container.decode(video=0)]  # type: ignore[no-untyped-call]
    except (av.FFmpegError, OSError, ValueError) as error:
        raise ForwardError(f"{field} {path!r}: the video cannot be read: {error}") from error
    if not frames:
        raise ForwardError(f"{field} {path!r}: the video has no frames")
    return frames


def _read(path: str, field: str, mode: str) -> Image.Image:
    source = _existing(path, field)
    try:
        with Image.open(source) as file:
            upright: Image.Image = ImageOps.exif_transpose(file)
            return upright.convert(mode)
    except UnidentifiedImageError as error:
        raise ForwardError(f"{field} {path!r}: this is no image file that can be read") from error
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ForwardError(f"{field} {path!r}: the image cannot be read: {error}") from error


def _existing(path: str, field: str) -> Path:
    """`path` as a file that is there."""
    source = Path(path).expanduser()
    if not source.is_file():
        raise ForwardError(f"{field} {path!r}: no such file")
    return source
