"""A video file that grows with its frames, identical to the one that `write_output` makes of all of them at once.

write(frames) ... write(frames) ── encoder ──> hidden file        finish ──> hash, fsync, rename, fsync of the folder
discard, or an error in any of these ──> the hidden file is removed
"""

import itertools
import os
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path, PurePosixPath

from omni_cli.errors import WriteError
from omni_cli.request import Interval, OutputFile
from omni_cli.storage.atomic import PendingFile, pending_file
from omni_cli.storage.filesystem import sync_descriptor
from omni_cli.writers.formats import VIDEO_CONTAINERS, check_sample, file_fps, resolve_format
from omni_cli.writers.output_target import OutputTarget, write_errors
from omni_cli.writers.samples import Frames
from omni_cli.writers.video import EncodeFrames, plan_video
from omni_cli.writers.write import WrittenFile, video_encoder

_ZEROS_BYTES = 1 << 20


class ClipWriter:
    """One file of a format of `VIDEO_CONTAINERS`, opened by the first `write`. One thread may use it at a time."""

    def __init__(self, target: OutputTarget) -> None:
        """Prepare to write `target`; nothing is opened yet."""
        self._target = target
        self._stack = ExitStack()
        self._encode: EncodeFrames | None = None
        self._pending: PendingFile | None = None
        self._size = (0, 0)
        self._encode_seconds = 0.0
        self.frames = 0
        self.nbytes = 0
        """Size in bytes of the hidden file when it was given up."""

    def write(self, frames: Frames) -> None:
        """Encode the next frames; the payload behind them is not read after this returns or raises.

        Raises WriteError that names the file and the reason; the writer is then closed and its hidden file removed.
        """
        started = time.monotonic()
        with write_errors(self._target.root, self._target.name):
            try:
                if self._encode is None:
                    self._encode = self._open(frames)
                if (frames.width, frames.height) != self._size:
                    raise WriteError(
                        f"{self._target.name!r} was not written: its frames change their size from {self._size}"
                    )
                self._encode(frames)
            except BaseException as error:
                self._abort(error)
                raise
        self.frames += len(frames)
        self._encode_seconds += time.monotonic() - started

    def finish(self) -> WrittenFile:
        """Complete the file and put it in place.

        The `encode` interval is as long as the encoder was busy, and ends when it finished. Raises the errors of
        `write`; nothing has then appeared under the name.
        """
        assert self._pending is not None
        started = time.monotonic()
        with write_errors(self._target.root, self._target.name):
            try:
                self._encoder_stack.close()
                encoded = time.monotonic()
                digest = self._pending.commit()
            except BaseException as error:
                self._abort(error)
                raise
            self._encode = None
            self._stack.close()
        self._encode_seconds += encoded - started
        width, height = self._size
        file = OutputFile(
            path=self._target.name,
            sha256=digest.sha256,
            bytes=digest.bytes,
            width=width,
            height=height,
            frames=self.frames,
            fps=self._target.fps,
        )
        return WrittenFile(file, Interval(encoded - self._encode_seconds, encoded), Interval(encoded, time.monotonic()))

    def finish_partial(self) -> WrittenFile:
        """Complete the file with the frames so far under an unused name: `clip.partial.mp4`, `clip.partial-2.mp4`, ...

        Raises the errors of `finish`.
        """
        assert self._pending is not None
        path = self._pending.path
        for number in itertools.count(1):
            leaf = f"{path.stem}.partial{'' if number == 1 else f'-{number}'}{path.suffix}"
            if not os.path.lexists(path.with_name(leaf)):
                break
        self._pending = replace(self._pending, path=path.with_name(leaf))
        self._target = replace(self._target, name=str(PurePosixPath(self._target.name).with_name(leaf)))
        return self.finish()

    def discard(self) -> None:
        """Remove the hidden file. Does nothing after `finish` or before the first `write`."""
        self._abort(_Discarded())

    def _open(self, frames: Frames) -> EncodeFrames:
        """Plan the video after its first frames and open its encoder."""
        target = self._target
        form = resolve_format(target.format)
        assert form.name in VIDEO_CONTAINERS
        fps = file_fps(form, frames, target.fps)
        check_sample(form, frames, fps)
        assert fps is not None
        self._target = replace(target, fps=fps)
        job = plan_video(frames, form, fps, target.options, target.metadata)
        self._size = (frames.width, frames.height)
        self._pending = self._stack.enter_context(pending_file(target.root, target.name))
        self._encoder_stack = self._stack.enter_context(ExitStack())
        return self._encoder_stack.enter_context(video_encoder(job).open_stream(self._pending.temporary, job))

    def _abort(self, error: BaseException) -> None:
        """Close encoder and hidden file because of `error`; raises the encoder's own error if it has one."""
        if self._encode is not None and self._pending is not None:
            self.nbytes = os.fstat(self._pending.descriptor).st_size
        self._encode = None
        self._stack.__exit__(type(error), error, error.__traceback__)


def check_disk_accepts(root: Path, name: str, nbytes: int) -> None:
    """Write `nbytes` zeros to a hidden file beside `root / name`, which is removed again.

    Raises StorageError if the disk does not take them.
    """
    with write_errors(root, name), pending_file(root, name) as pending:
        with pending.open() as file:
            for start in range(0, nbytes, _ZEROS_BYTES):
                file.write(bytes(min(_ZEROS_BYTES, nbytes - start)))
        sync_descriptor(pending.descriptor)


class _Discarded(Exception):
    """Ends the encoder of a file that is not wanted any more."""
