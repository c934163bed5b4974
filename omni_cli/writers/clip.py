"""A video file that grows with its frames: the same file as `write_output` makes of all of them at once.

write(frames) ... write(frames) ── encoder ──> hidden file        finish ──> fsync, hash, rename, fsync of the folder
discard, or an error in any of these ──> the hidden file is gone
"""

import contextlib
import itertools
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path, PurePosixPath

from omni_cli.config import OutputConfig
from omni_cli.errors import WriteError
from omni_cli.media import Kind
from omni_cli.request import Interval, OutputFile
from omni_cli.writers.finalize import Frames
from omni_cli.writers.formats import FRAME_STREAMS, check_available, resolve_format
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.place import Pending, placing
from omni_cli.writers.video import Put, plan_video
from omni_cli.writers.write import VIDEO_ENCODERS, Written, check_holds, root_of, write_errors

_ZEROS = 1 << 20


class ClipWriter:
    """One file of a format of `FRAME_STREAMS`. One thread at a time, whichever. Nothing is open before the first frames."""

    def __init__(
        self,
        path: Path,
        *,
        name: str,
        format: str,  # noqa: A002 - the request's own word
        fps: float | None,
        options: OutputConfig,
        metadata: Metadata | None = None,
    ) -> None:
        """As `write_output`."""
        self._name, self._format, self._fps = name, format, fps
        self._options, self._metadata = options, metadata
        self._root = root_of(path, name)
        self._stack = ExitStack()
        self._put: Put | None = None
        self._pending: Pending | None = None
        self._size = (0, 0)
        self._seconds = 0.0
        self.frames = 0
        self.nbytes = 0
        """Size of the hidden file when it was given up."""

    def write(self, frames: Frames) -> None:
        """Encode the next frames; nothing of this reads the payload behind them once it returns or raises.

        Raises WriteError that names the file and the reason; the hidden file is gone then, and this is of no more use.
        """
        started = time.monotonic()
        with write_errors(self._name, self._root):
            try:
                if self._put is None:
                    self._put = self._open(frames)
                if (frames.width, frames.height) != self._size:
                    raise WriteError(f"{self._name!r} was not written: its frames change their size from {self._size}")
                self._put(frames)
            except BaseException:
                self._break_off()
                raise
        self.frames += len(frames)
        self._seconds += time.monotonic() - started

    def keep(self) -> Written:
        """As `finish`, of what there is, under a name that says so and is nobody's: `clip.partial.mp4`, `clip.partial-2.mp4`, ..."""
        assert self._pending is not None
        path = self._pending.path
        for number in itertools.count(1):
            leaf = f"{path.stem}.partial{'' if number == 1 else f'-{number}'}{path.suffix}"
            if not os.path.lexists(path.with_name(leaf)):
                break
        self._pending = replace(self._pending, path=path.with_name(leaf))
        self._name = str(PurePosixPath(self._name).with_name(leaf))
        return self.finish()

    def finish(self) -> Written:
        """End the file and place it. Its `encode` is as long as the encoder was at work, and ends when it did.

        Raises WriteError as `write`; nothing has appeared under the name then.
        """
        assert self._pending is not None
        started = time.monotonic()
        with write_errors(self._name, self._root):
            try:
                self._encoder.close()
                encoded = time.monotonic()
                placed = self._pending.commit()
            except BaseException:
                self._break_off()
                raise
            self._put = None
            self._stack.close()
        self._seconds += encoded - started
        width, height = self._size
        file = OutputFile(
            path=self._name,
            sha256=placed.sha256,
            bytes=placed.bytes,
            width=width,
            height=height,
            frames=self.frames,
            fps=self._fps,
        )
        return Written(file, Interval(encoded - self._seconds, encoded), Interval(encoded, time.monotonic()))

    def discard(self) -> None:
        """Leave nothing behind. Harmless when finished, or before anything was written."""
        try:
            raise _Discarded
        except _Discarded:
            self._break_off()

    def _open(self, frames: Frames) -> Put:
        form = resolve_format(self._format)
        assert form.name in FRAME_STREAMS
        self._fps = self._fps if frames.kind is Kind.VIDEO else None
        check_holds(form, frames, self._fps)
        assert self._fps is not None
        encoder = VIDEO_ENCODERS[check_available(form, self._options)]
        job = plan_video(frames, form, self._fps, self._options, self._metadata)
        self._size = (frames.width, frames.height)
        self._pending = self._stack.enter_context(placing(self._root, self._name))
        self._encoder = self._stack.enter_context(ExitStack())
        return self._encoder.enter_context(encoder.writing(self._pending.temporary, job))

    def _break_off(self) -> None:
        """End encoder and hidden file as after the error being handled, which the encoder may have a better word for."""
        error = sys.exc_info()
        if self._put is not None and self._pending is not None:
            self.nbytes = os.fstat(self._pending.descriptor).st_size
        self._put = None
        with contextlib.suppress(_Discarded):
            self._stack.__exit__(*error)


def check_room(root: Path, name: str, nbytes: int) -> None:
    """Raise StorageFault unless the disk takes a file of `nbytes` beside `root / name` now; nothing is left of it."""
    with write_errors(name, root), placing(root, name) as pending:
        with open(pending.descriptor, "wb", closefd=False) as file:
            for start in range(0, nbytes, _ZEROS):
                file.write(bytes(min(_ZEROS, nbytes - start)))
        os.fsync(pending.descriptor)


class _Discarded(Exception):
    """Nobody wants the file."""
