"""What was written, read back: the frames of a file, how two files differ, and the document that says how one was made."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from omni_cli.errors import OutputFolderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.generic]

VIDEO = (".mp4", ".webm", ".mov", ".mkv")
SOUND = (".wav", ".flac")

LOSSLESS = frozenset({"png", "npy"})


@dataclass(frozen=True, slots=True)
class Difference:
    """Between two sets of pictures: the largest difference in levels (256: not even the same size), over `frames` frames."""

    levels: int = 0
    frames: int = 0

    def __or__(self, other: "Difference") -> "Difference":
        """Both together."""
        return Difference(max(self.levels, other.levels), self.frames + other.frames)


def difference(one: Path, other: Path) -> Difference:
    """The largest difference between any two values at the same place of two files or folders of frames, and of their sound.

    Values beyond uint8 (sound, floats, 16-bit levels) are put on its scale: 255 levels are the whole range of a picture or of a
    sound, and any difference at all is at least one.
    """
    found = Difference()
    for left, right in zip_longest(frames_of(one), frames_of(other)):
        if left is None or right is None or left.shape != right.shape:
            return Difference(256, found.frames)
        found |= Difference(_apart(left, right), 1)
    for left, right in zip_longest(_sound_of(one), _sound_of(other)):
        if left is None or right is None or left.shape != right.shape:
            return Difference(256, found.frames)
        found |= Difference(_apart(left, right), 0 if found.frames else 1)
    return found


def _apart(left: "Values", right: "Values") -> int:
    import numpy as np

    if left.dtype != right.dtype:
        return 256
    # Wide enough for any difference: levels are unsigned and would wrap.
    most = float(np.abs(left.astype(np.float64) - right.astype(np.float64)).max(initial=0.0))
    whole = 65535 if left.dtype == np.uint16 else 255 if left.dtype == np.uint8 else 2.0
    return 0 if most == 0 else min(255, max(1, round(most * 255 / whole)))


def folders_differ(one: Path, other: Path, names: list[str]) -> Difference:
    """`difference` over the files `names` of two folders. Raises OutputFolderError if one is missing."""
    found = Difference()
    for name in names:
        for path in (one / name, other / name):
            if not path.is_file():
                raise OutputFolderError(f"{str(path)!r} is missing; something else changes the folder")
        found |= difference(one / name, other / name)
    return found


def frames_of(path: Path) -> "Iterator[Values]":
    """The decoded frames of a file or a folder of them, one at a time: uint8 [H, W, C], or uint16 where a picture has 16 bits.

    Of arrays (npy, npz, safetensors) what is in them, [H, W, C] by [H, W, C] where they are uint8. A file of sound has none.
    """
    import numpy as np

    if path.is_dir():
        for picture in sorted(path.glob("*.png")):
            yield from frames_of(picture)
    elif path.suffix == ".npy":
        levels = np.load(path, mmap_mode="r")
        yield from levels if levels.ndim == 4 else levels[None]
    elif path.suffix in (".npz", ".safetensors"):
        yield from _arrays_of(path)
    elif path.suffix in VIDEO:
        yield from _decoded_frames(path, "rgb24")
    elif path.suffix not in SOUND:
        yield from _pictures_of(path)


def _arrays_of(path: Path) -> "Iterator[Values]":
    import numpy as np

    if path.suffix == ".npz":
        with np.load(path) as arrays:
            for name in sorted(set(arrays) - {"metadata"}):
                yield arrays[name]
    else:
        yield from _tensors_of(path)


def _tensors_of(path: Path) -> "Iterator[Values]":
    """The arrays that `arrays.write_safetensors` writes: uint8 and float32, behind a JSON header whose length comes first."""
    import numpy as np

    kinds = {"U8": np.uint8, "F32": np.float32}
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    for _, entry in sorted(header.items()):
        begin, end = entry["data_offsets"]
        kind = np.dtype(kinds[entry["dtype"]])
        values = np.memmap(path, kind, "r", 8 + size + begin, ((end - begin) // kind.itemsize,))
        yield values.reshape(entry["shape"])


def _decoded_frames(path: Path, layout: str) -> "Iterator[Values]":
    import av

    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            yield cast("Values", frame.to_ndarray(format=layout))


def _pictures_of(path: Path) -> "Iterator[Values]":
    import numpy as np
    from PIL import Image, ImageSequence

    with path.open("rb") as file:
        # Pillow reads 16-bit colour as 8 bits: the depth is the byte behind width and height (PNG, section 11.2.2).
        deep = path.suffix == ".png" and file.read(25)[24:] == b"\x10"
    if deep:
        yield from _decoded_frames(path, "rgb48le")
        return
    with Image.open(path) as image:
        for picture in ImageSequence.Iterator(image):
            yield np.asarray(picture.convert("RGBA" if picture.has_transparency_data else "RGB"))


def _sound_of(path: Path) -> "Iterator[Values]":
    """The decoded sound, as float32 [channels, samples] a packet; nothing where there is none."""
    import av
    import numpy as np

    if path.is_dir():
        path = path / "audio.wav"
    if path.suffix not in (*VIDEO, *SOUND) or not path.is_file():
        return
    with av.open(str(path)) as container:
        if not container.streams.audio:
            return
        resampler = av.AudioResampler(format="fltp", layout=container.streams.audio[0].layout)
        for frame in container.decode(audio=0):
            for part in resampler.resample(frame):
                yield part.to_ndarray().astype(np.float32)


def document_of(path: Path) -> dict[str, Any] | None:
    """The JSON document that a file of ours carries (see `metadata`), or None: not ours, without metadata, or a format without room.

    Raises OSError if the file cannot be read. What it holds is a stranger's data: check it before use.
    """
    text: object = None
    if path.is_dir():
        path = path / "000000.png"
    if path.suffix in VIDEO:
        import av

        try:
            with av.open(str(path)) as container:
                found = {key.lower(): value for key, value in container.metadata.items()}
        except av.FFmpegError as error:
            raise OSError(f"cannot be read as video: {error}") from error
        text = found.get("comment")
    elif path.suffix in (".png", ".gif", ".apng"):
        from PIL import Image

        with Image.open(path) as image:
            text = image.info.get("omni_gen", image.info.get("comment"))
    return _decoded(text)


def _decoded(text: object) -> dict[str, Any] | None:
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if not isinstance(text, str):
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "request" in document else None
