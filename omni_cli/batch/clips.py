"""The growing files of one request whose frames arrive while its video is still being decoded."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from omni_cli.errors import WriteError
from omni_cli.executor.frame_stream import FramePiece
from omni_cli.log import logger
from omni_cli.media import MediaHeader
from omni_cli.request import ExecutedOn
from omni_cli.writers import ClipWriter, Frames, WrittenFile, split_samples


class SerialQueue:
    """Jobs of one request, run in order on threads that many requests share; an empty queue occupies no thread."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._jobs: deque[Callable[[], None]] = deque()
        self._running = False

    def put(self, job: Callable[[], None]) -> None:
        """Run `job`, which must not raise, after the jobs before it.

        Raises RuntimeError if the threads are shut down.
        """
        with self._lock:
            if not self._running:
                self._threads.submit(self._run)
                self._running = True
            self._jobs.append(job)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._running = False
                    return
                job = self._jobs.popleft()
            job()


class Clips:
    """One growing file per sample of a request. Not thread-safe: calls come from one thread at a time."""

    def __init__(self, clip_writer_of: Callable[[int, ExecutedOn], ClipWriter]) -> None:
        """`clip_writer_of` returns a new writer for the sample with that index, computed there."""
        self._clip_writer_of = clip_writer_of
        self._writers: dict[int, ClipWriter] = {}
        self._error: Exception | None = None
        self.nbytes = 0
        """Largest size in bytes of the files that were given up unfinished."""

    @property
    def has_frames(self) -> bool:
        """Whether any frame has been written."""
        return any(writer.frames for writer in list(self._writers.values()))

    def write(self, piece: FramePiece) -> None:
        """Encode the frames of `piece` and release it. Does not raise: `finish` raises the first error."""
        try:
            for sample, frames in enumerate(split_samples(piece.header, piece.buffer), piece.first_sample):
                if piece.first_frame == 0:
                    self._start(sample, piece.executed_on)
                if self._error is None and isinstance(frames, Frames):
                    self._check_frame_count(sample, piece.first_frame)
                    self._writers[sample].write(frames)
                del frames
        except Exception as error:  # boundary: any error fails this request and must not end the shared thread
            self._error = error
        finally:
            piece.release()

    def finish(self, header: MediaHeader) -> list[WrittenFile]:
        """Place the files of the output that `header` describes.

        Raises the first error; no partial file is left then.
        """
        try:
            if self._error is not None:
                raise self._error
            count, frames = header.shape[:2]
            for sample in range(count):
                self._check_frame_count(sample, frames)
            return [self._writers[sample].finish() for sample in range(count)]
        finally:
            self.close()

    def keep(self) -> list[WrittenFile]:
        """Place the frames so far under names that mark them as partial; log and skip a file that cannot be placed."""
        kept = []
        for writer in self._writers.values():
            if writer.frames and self._error is None:
                try:
                    kept.append(writer.finish_partial())
                except WriteError as error:
                    logger.error("a partial video was not kept: %s", error)
        return kept

    def close(self) -> None:
        """Remove the files that are not placed."""
        for writer in self._writers.values():
            writer.discard()
        self.nbytes = max(self.nbytes, sum(writer.nbytes for writer in self._writers.values()))
        self._writers.clear()

    def _start(self, sample: int, executed_on: ExecutedOn) -> None:
        """Start a clip, or restart it after its worker died or its decode was repeated."""
        if (previous := self._writers.pop(sample, None)) is not None:
            previous.discard()
        if not self._writers:
            self._error = None
        self._writers[sample] = self._clip_writer_of(sample, executed_on)

    def _check_frame_count(self, sample: int, expected: int) -> None:
        count = self._writers[sample].frames if sample in self._writers else 0
        if count != expected:
            raise WriteError(f"output {sample} was not written: expected {expected} frames so far, got {count}")
