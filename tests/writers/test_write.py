"""The entry point of the writers: rows, refusals, failures, threads, memory and full disks."""

import hashlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from omni_cli.config import OutputConfig
from omni_cli.errors import StorageError, WriteError
from omni_cli.media import ColorModel, Kind
from omni_cli.writers.formats import FORMATS
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.output_target import OutputTarget
from omni_cli.writers.samples import Frames
from omni_cli.writers.write import WrittenFile, write_output
from tests.disks import fill, small_disk

IMAGES, VIDEOS = ("png", "jpeg", "webp", "npy"), ("mp4", "webm", "gif")
ALL = [(form, "pyav") for form in IMAGES + VIDEOS] + [(form, "ffmpeg") for form in VIDEOS]


class BrokenFrames(Frames):
    """Frames of which the second, or the only one, cannot be read."""

    def __iter__(self) -> Iterator[np.ndarray]:
        yield from self.array[: len(self) // 2]
        raise ValueError("a frame cannot be read")


def write(
    frames: Frames, root: Path, name: str, encoder: str = "auto", fps: float | None = 8.0, **more: object
) -> WrittenFile:
    options = OutputConfig(encoder=encoder)  # type: ignore[arg-type]
    form = name.split(".")[-1]
    return write_output(frames, OutputTarget(root, name, form, fps, options, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(("form", "encoder"), ALL)
def test_row_describes_the_file_on_disk(
    clip: Callable[..., Frames], still: Callable[..., Frames], tmp_path: Path, form: str, encoder: str
) -> None:
    frames = still() if form in IMAGES else clip(65, 63)
    written = write(frames, tmp_path, f"a/b/x.{form}", encoder, fps=23.976)
    data = (tmp_path / "a/b" / f"x.{form}").read_bytes()
    row = written.file
    assert (row.path, row.sha256, row.bytes) == (f"a/b/x.{form}", hashlib.sha256(data).hexdigest(), len(data))
    assert (row.width, row.height, row.frames) == (65, 63, len(frames))
    assert row.fps == (None if form in IMAGES else 23.976)
    assert 0 < written.encode.start <= written.encode.end == written.write.start <= written.write.end
    assert [path.name for path in (tmp_path / "a/b").iterdir()] == [f"x.{form}"]


@pytest.mark.parametrize(("form", "encoder"), ALL)
def test_failure_midway_keeps_the_old_file(
    clip: Callable[..., Frames], still: Callable[..., Frames], tmp_path: Path, form: str, encoder: str
) -> None:
    whole = still() if form in IMAGES else clip()
    (tmp_path / f"x.{form}").write_bytes(b"old")
    with pytest.raises(WriteError, match=f"'x.{form}' was not written: a frame cannot be read"):
        write(BrokenFrames(whole.array, whole.kind, whole.color), tmp_path, f"x.{form}", encoder)
    assert [path.name for path in tmp_path.iterdir()] == [f"x.{form}"]
    assert (tmp_path / f"x.{form}").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("name", "channels", "count", "fps", "reason"),
    [
        ("x.jpeg", 4, 1, None, "jpeg has no transparency, .* use png or webp"),
        ("x.mp4", 4, 3, 8.0, "mp4 has no transparency, .* use webp, frames or npy"),
        ("x.gif", 4, 3, 8.0, "gif has no transparency, .* use webp, frames or npy"),
        (
            "x.png",
            3,
            3,
            8.0,
            "png cannot hold video output of 3 frames; formats for video: webp, avif, mp4, webm, mov, mkv, gif, ",
        ),
        ("x.mp4", 3, 3, None, "mp4 needs fps"),
        ("x.gif", 3, 3, 60.0, "gif takes fps above 0 and up to 50, not 60"),
        ("x.webm", 3, 3, float("nan"), "webm takes fps above 0"),
    ],
)
def test_output_that_a_format_cannot_hold_is_refused_before_anything_is_written(
    clip: Callable[..., Frames],
    still: Callable[..., Frames],
    tmp_path: Path,
    name: str,
    channels: int,
    count: int,
    fps: float | None,
    reason: str,
) -> None:
    frames = clip(8, 8, count, channels) if count > 1 else still(8, 8, channels)
    with pytest.raises(WriteError, match=reason):
        write(frames, tmp_path, name, fps=fps)
    assert list(tmp_path.iterdir()) == []


def test_image_is_not_written_as_a_video(still: Callable[..., Frames], tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="mp4 cannot hold image output of 1 frames"):
        write(still(), tmp_path, "x.mp4")


def test_video_of_one_frame_fits_an_image_format(clip: Callable[..., Frames], tmp_path: Path) -> None:
    assert write(clip(count=1), tmp_path, "x.png").file.fps is None


def test_side_beyond_the_format_is_refused_with_its_limit(tmp_path: Path) -> None:
    wide = Frames(np.zeros((1, 1, 16384, 3), np.uint8), Kind.IMAGE, ColorModel.RGB)
    with pytest.raises(WriteError, match="webp holds at most 16383 pixels a side, got 16384x1"):
        write(wide, tmp_path, "x.webp")
    assert write(wide, tmp_path, "x.png").file.width == 16384


@pytest.mark.parametrize("name", ["../x.png", "a/../../x.png", "/etc/x.png", ""])
def test_name_that_leads_out_of_the_folder_is_refused(still: Callable[..., Frames], tmp_path: Path, name: str) -> None:
    root = tmp_path / "out"
    with pytest.raises(WriteError, match="leads out of the output folder"):
        write_output(still(), OutputTarget(root, name, "png", None, OutputConfig()))
    assert list(tmp_path.iterdir()) == []


def test_folder_under_the_final_name_is_an_error_that_names_it(still: Callable[..., Frames], tmp_path: Path) -> None:
    (tmp_path / "x.png").mkdir()
    with pytest.raises(WriteError, match=r"'x.png' was not written: Is a directory \(EISDIR\)"):
        write(still(), tmp_path, "x.png")
    assert [path.name for path in tmp_path.iterdir()] == ["x.png"]


@pytest.mark.parametrize(("form", "encoder"), ALL)
def test_same_frames_and_metadata_give_the_same_bytes(
    clip: Callable[..., Frames],
    still: Callable[..., Frames],
    metadata: Callable[..., Metadata],
    tmp_path: Path,
    form: str,
    encoder: str,
) -> None:
    frames = still() if form in IMAGES else clip()
    first, second = (write(frames, tmp_path, f"{i}.{form}", encoder, metadata=metadata()).file.sha256 for i in range(2))
    assert first == second


def test_many_threads_give_the_bytes_of_one_thread(
    clip: Callable[..., Frames], still: Callable[..., Frames], tmp_path: Path
) -> None:
    for folder in ("alone", "together"):
        (tmp_path / folder).mkdir()
    jobs = [
        (form.name, clip(96, 66) if form.codecs else still())
        for form in FORMATS
        if (form.codecs or Kind.IMAGE in form.kinds) and form.name != "latent"
    ] * 3
    alone = {name: write(frames, tmp_path / "alone", f"x.{name}").file.sha256 for name, frames in jobs}
    together: dict[str, str] = {}

    def run(index: int, name: str, frames: Frames) -> None:
        together[f"{index}.{name}"] = write(frames, tmp_path / "together", f"{index}.{name}").file.sha256

    threads = [threading.Thread(target=run, args=(index, *job)) for index, job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == {f"{index}.{name}": alone[name] for index, (name, _) in enumerate(jobs)}


DISK_FULL = """
import os, pathlib, resource, sys
import numpy as np
from omni_cli.config import OutputConfig
from omni_cli.errors import StorageError, WriteError
from omni_cli.media import ColorModel, Kind
from omni_cli.writers.samples import Frames
from omni_cli.writers.formats import resolve_format
from omni_cli.writers.output_target import OutputTarget
from omni_cli.writers.write import write_output

root = pathlib.Path(sys.argv[1])
noise = np.random.default_rng(0).integers(0, 256, (6, 64, 64, 3), dtype=np.uint8)
image, video = Frames(noise[:1], Kind.IMAGE, ColorModel.RGB), Frames(noise, Kind.VIDEO, ColorModel.RGB)

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

for job in sys.argv[2:]:
    form, encoder = job.split(":")
    frames = video if resolve_format(form).codecs else image
    def write():
        options = OutputConfig(encoder=encoder, quality=95)
        return write_output(frames, OutputTarget(root, f"x.{form}", form, 8, options)).file.bytes
    limit(resource.RLIM_INFINITY)
    size = write()
    (root / f"x.{form}").unlink()
    for most in (1, size // 3, size // 2, size - 1) if encoder == "pyav" else (size // 2,):
        limit(most)
        try:
            write()
        except WriteError as error:
            text = str(error)
            assert f"'x.{form}' was not written: " in text, text
            assert "EFBIG" in text if encoder == "pyav" else "SIGXFSZ" in text or "too large" in text, text
        else:
            raise SystemExit(f"{job}: a file of {size} bytes was written within {most}")
        assert os.listdir(root) == [], os.listdir(root)
"""


def test_file_size_limit_is_an_error_with_its_reason_and_leaves_nothing(tmp_path: Path) -> None:
    jobs = [f"{form}:{encoder}" for form, encoder in ALL]
    done = subprocess.run([sys.executable, "-c", DISK_FULL, str(tmp_path), *jobs], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


LONG_CLIP = """
import pathlib, resource, sys
import numpy as np
from omni_cli.config import OutputConfig
from omni_cli.media import ColorModel, Kind
from omni_cli.writers.output_target import OutputTarget
from omni_cli.writers.samples import Frames
from omni_cli.writers.write import write_output

root = pathlib.Path(sys.argv[1])
shape = (240, 256, 384, 3)  # 71 MB, a sparse file mapped read-only
np.lib.format.open_memmap(root / "clip.npy", "w+", np.uint8, shape)
clip = Frames(np.load(root / "clip.npy", mmap_mode="r"), Kind.VIDEO, ColorModel.RGB)

def write(frames, form):
    options = OutputConfig(encoder_preset="ultrafast")
    return write_output(frames, OutputTarget(root, f"x.{form}", form, 8, options)).file.frames

for form in sys.argv[2:]:  # load libraries, encoder buffers and allocator arenas first
    write(Frames(clip.array[:16], clip.kind, clip.color), form)
used = int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (used + (24 << 20), resource.RLIM_INFINITY))
for form in sys.argv[2:]:
    assert write(clip, form) == shape[0]
"""


def test_long_clip_is_encoded_in_a_third_of_its_memory(tmp_path: Path) -> None:
    """RLIMIT_DATA counts private memory, not the mapped clip: a copy of the clip, or of its YUV half, would not fit."""
    done = subprocess.run(
        [sys.executable, "-c", LONG_CLIP, str(tmp_path), "npy", *VIDEOS], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("form", "encoder"), [("png", "pyav"), ("npy", "pyav"), ("mp4", "pyav"), ("gif", "pyav"), ("mp4", "ffmpeg")]
)
def test_full_disk_is_a_storage_error_and_leaves_nothing(
    clip: Callable[..., Frames], still: Callable[..., Frames], tmp_path: Path, form: str, encoder: str
) -> None:
    frames = still(256, 256) if form in IMAGES else clip(256, 256)
    with small_disk(tmp_path / "disk", "64k") as disk:
        ballast = fill(disk)
        with pytest.raises(
            StorageError, match=rf"'x.{form}' was not written: No space left on device \(ENOSPC\); make room on"
        ):
            write(frames, disk, f"x.{form}", encoder)
        assert [path.name for path in disk.iterdir()] == ["ballast"]
        ballast.unlink()


def test_disk_that_became_read_only_is_a_storage_error(still: Callable[..., Frames], tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(StorageError, match=r"Read-only file system \(EROFS\)"):
            write(still(), disk, "a/x.png")


def test_deleted_output_folder_is_not_created_again(still: Callable[..., Frames], tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"'a/x\.png' was not written: the output folder .* is not there"):
        write(still(), tmp_path / "out", "a/x.png")
    assert list(tmp_path.iterdir()) == []
