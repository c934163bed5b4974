"""Output folders with real files and rows, as a run writes them."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from omni_cli.journal import MANIFEST_NAME
from omni_cli.request import GenerationRequest, OutputFile, Result, Starts, Status, Timings, to_json
from omni_cli.storage.digest import Digest, folder_digest
from tests.factories import result

Levels = NDArray[np.uint8]

RUN = 1_764_500_000.0
"""The start of the run of a folder's rows, in seconds since 1970."""

TIMINGS = Timings(queued=1.0, forward=1.0, d2h=0.125, encode=0.25, write=0.125)


def levels(seed: int, height: int = 24, width: int = 32) -> Levels:
    """Return a picture [height, width, 3] of stripes that depend on `seed`."""
    rows, columns = np.mgrid[:height, :width]
    return np.stack([(rows * 5 + columns * 3 + seed * 40 * colour) % 200 for colour in (1, 2, 3)], -1).astype(np.uint8)


def save(path: Path, frames: list[Levels], fps: float) -> None:
    """Write `frames` in the format of the extension; a folder of frames without one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures = [Image.fromarray(frame) for frame in frames]
    match path.suffix:
        case ".npy":
            np.save(path, frames[0] if len(frames) == 1 else np.stack(frames))
        case ".npz":
            np.savez(path, frames=np.stack(frames), fps=np.float64(fps))
        case ".webm":
            with av.open(str(path), "w") as container:
                stream = container.add_stream("libvpx-vp9", rate=int(fps), options={"deadline": "realtime"})
                stream.width, stream.height, stream.pix_fmt = frames[0].shape[1], frames[0].shape[0], "yuv420p"
                for frame in frames:
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
                container.mux(stream.encode(None))
        case ".wav":
            path.write_bytes(b"RIFF not decoded by anything here")
        case "":
            path.mkdir()
            for number, picture in enumerate(pictures):
                picture.save(path / f"{number:06d}.png")
        case _:
            more = {"save_all": True, "append_images": pictures[1:], "duration": 1000 / fps} if pictures[1:] else {}
            pictures[0].save(path, **more)


class OutputFolder:
    """A folder and its rows. `done` writes real files; `write` writes the manifest."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.rows: list[Result] = []
        root.mkdir(parents=True, exist_ok=True)

    def done(self, request_id: str, *paths: str, frames: int = 1, seed: int = 1, **fields: Any) -> Result:
        """Add a done request whose files hold pictures of `seed` and the numbers after it."""
        names = paths or (f"{request_id}.png",)
        files = []
        for number, name in enumerate(names):
            pictures = [levels(seed + number + frame) for frame in range(frames)]
            save(self.root / name, pictures, 8)
            files.append(self._describe(name, frames))
        request = GenerationRequest(id=request_id, format="frames" if not Path(names[0]).suffix else None)
        seeds = tuple(range(seed, seed + len(names)))
        defaults = {"request": request, "seeds": seeds, "files": tuple(files)}
        return self.add(request_id, **{**defaults, **fields})

    def add(self, request_id: str, status: Status = "done", **fields: Any) -> Result:
        """Add a row; it ran for 1 s right after the row before."""
        start = RUN + 2 + len(self.rows)
        starts = Starts(run=RUN, worker=0, forward=start, d2h=start + 1, encode=start + 1.125, write=start + 1.375)
        defaults = {"index": len(self.rows), "starts": starts, "timings": TIMINGS}
        self.rows.append(result(request_id, status, **{**defaults, **fields}))
        return self.rows[-1]

    def write(self) -> Path:
        """Write the manifest and return the folder."""
        (self.root / MANIFEST_NAME).write_bytes(b"".join(to_json(row) + b"\n" for row in self.rows))
        return self.root

    def _describe(self, name: str, frames: int) -> OutputFile:
        path = self.root / name
        if path.is_dir():
            digest = folder_digest(path)
        else:
            digest = Digest(hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size)
        size = (0, 0) if path.suffix == ".wav" else (32, 24)
        return OutputFile(
            path=name,
            sha256=digest.sha256,
            bytes=digest.bytes,
            width=size[0],
            height=size[1],
            frames=0 if path.suffix == ".wav" else frames,
            fps=8.0 if frames > 1 else None,
        )


MakeFolder = Callable[..., OutputFolder]


@pytest.fixture
def make_folder(tmp_path: Path) -> MakeFolder:
    """Return a function that makes an output folder of this name."""
    return lambda name="out": OutputFolder(tmp_path / name)


@pytest.fixture
def folder(make_folder: MakeFolder) -> OutputFolder:
    """Return an output folder."""
    return make_folder()
