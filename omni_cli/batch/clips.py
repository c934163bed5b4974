"""The files of one request whose frames come in pieces, while its video is still being decoded."""

from collections.abc import Callable

from omni_cli.errors import WriteError
from omni_cli.executor.feed import FramePiece
from omni_cli.log import logger
from omni_cli.media import MediaHeader
from omni_cli.writers import ClipWriter, Frames, Written, samples


class Clips:
    """One growing file per sample. One thread at a time, whichever."""

    def __init__(self, writer_of: Callable[[int], ClipWriter]) -> None:
        """`writer_of` makes the writer of a sample."""
        self._writer_of = writer_of
        self._writers: dict[int, ClipWriter] = {}
        self._error: Exception | None = None
        self.nbytes = 0
        """Bytes of files that could not be finished, while they were there."""

    def take(self, piece: FramePiece) -> None:
        """Encode the frames of `piece` and give its memory back. Does not raise: `finish` tells what went wrong."""
        try:
            for sample, frames in enumerate(samples(piece.header, piece.buffer), piece.first_sample):
                if piece.first_frame == 0:
                    self._begin(sample)
                if self._error is None and isinstance(frames, Frames):
                    self._write(sample, piece.first_frame, frames)
                del frames
        except Exception as error:  # boundary: whatever it is ends this request, and must not end the thread
            self._error = error
        finally:
            piece.release()

    def finish(self, header: MediaHeader) -> list[Written]:
        """Place the files, which must hold what `header` says. Raises what went wrong; then none is left half-written."""
        try:
            if self._error is not None:
                raise self._error
            count, frames = header.shape[:2]
            for sample in range(count):
                self._check(sample, frames)
            return [self._writers[sample].finish() for sample in range(count)]
        finally:
            self.close()

    @property
    def begun(self) -> bool:
        """True once there are frames."""
        return any(writer.frames for writer in list(self._writers.values()))

    def keep(self) -> list[Written]:
        """Place what there is, under names that say that it is a part. What cannot be placed is not kept; raises nothing."""
        kept = []
        for writer in self._writers.values():
            if writer.frames and self._error is None:
                try:
                    kept.append(writer.keep())
                except WriteError as error:
                    logger.error("a part of a video was not kept: %s", error)
        return kept

    def close(self) -> None:
        """Leave nothing behind of files that are not placed."""
        for writer in self._writers.values():
            writer.discard()
        self.nbytes = max(self.nbytes, sum(writer.nbytes for writer in self._writers.values()))
        self._writers.clear()

    def _begin(self, sample: int) -> None:
        """A clip starts, or starts anew: its worker died, or its decode was repeated."""
        if (before := self._writers.pop(sample, None)) is not None:
            before.discard()
        if not self._writers:
            self._error = None
        self._writers[sample] = self._writer_of(sample)

    def _write(self, sample: int, first_frame: int, frames: Frames) -> None:
        self._check(sample, first_frame)
        self._writers[sample].write(frames)

    def _check(self, sample: int, frames: int) -> None:
        have = self._writers[sample].frames if sample in self._writers else 0
        if have != frames:
            raise WriteError(f"output {sample} was not written: {have} of its first {frames} frames have come")
