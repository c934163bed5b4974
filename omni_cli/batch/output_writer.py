"""From an OUTPUT_READY future to files in place and a manifest row.

    pump thread ── output_ready resolved ──> writer thread: encode from the slot ─> files placed ─> slot released
                │                                           └─> row in the journal ─> RequestFinished ─> `ended` queue
                └─ piece of a video ───────> writer thread: encode ─> slot released      (in order, before the output)

Every request ends in exactly one entry on the queue: its row, a rerender, or, if the engine itself died, the engine's
error.
"""

import contextlib
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import structs

from omni_cli.batch.clips import Clips, SerialQueue
from omni_cli.batch.disk_retry import DiskRetry
from omni_cli.batch.previews import Previews, lower_thread_priority
from omni_cli.batch.row_builder import OriginOf, RowBuilder, total
from omni_cli.batch.sample_writer import SampleWriter
from omni_cli.config import OutputConfig
from omni_cli.errors import EngineError, OmniGenError, RequestCancelled, RequestError, StorageError, StorageUnavailable
from omni_cli.events import EncodeDone, EncodeStarted, Note, Observer, RequestFinished
from omni_cli.executor.frame_stream import FramePiece
from omni_cli.executor.protocol import Handle, Output
from omni_cli.log import logger
from omni_cli.request import PlannedRequest, Result


@dataclass(frozen=True, slots=True)
class Rerender:
    """A request to render again: the disk did not take its frames, which were streamed and are gone."""

    planned: PlannedRequest


Ended = Result | OmniGenError | Rerender
"""An entry of the `ended` queue: a row, a request to render again, or the error that ends the run."""


class OutputWriter:
    """Writer threads over one output folder."""

    def __init__(
        self,
        config: OutputConfig,
        origin_of: OriginOf,
        append: Callable[[Result], None],
        observer: Observer,
        *,
        writers: int,
        background: bool = False,
        disk: DiskRetry | None = None,
        previews: Previews | None = None,
        rerender: bool = False,
    ) -> None:
        """`origin_of` returns the model behind a request, `append` adds a row to the journal.

        `writers` is the number of threads; with `background` they run at lower priority, for forwards on the same
        cores. `disk` retries what the disk does not take. With `rerender`, the reader of `ended` handles Rerender
        entries.
        """
        self.ended: queue.SimpleQueue[Ended | None] = queue.SimpleQueue()
        self.disk = disk or DiskRetry(Path(config.output_dir), config.disk_wait, notify=self.note)
        self._keep_partial = config.keep_partial
        self._append = append
        self._observe = observer
        self._previews = previews
        self._rows = RowBuilder(origin_of)
        self._samples = SampleWriter(config, origin_of, self.disk)
        self._clips: dict[str, Clips] = {}
        self._rerender = rerender
        self._rerendered: set[str] = set()
        self._threads = ThreadPoolExecutor(writers, "writer", lower_thread_priority if background else None)

    def announce(self, call: Sequence[PlannedRequest]) -> None:
        """Accept previews of these requests, which are about to be submitted."""
        if self._previews is not None:
            self._previews.open(call)

    def expect(self, handle: Handle) -> None:
        """Write the request's frames as they arrive, and finish it once its output is ready."""
        planned = handle.planned  # the handle owns the frame stream, whose listener must not keep the handle alive
        clips = Clips(lambda index, executed_on: self._samples.clip_writer(planned, index, executed_on))
        jobs = SerialQueue(self._threads)
        self._clips[handle.output_id] = clips

        def write(piece: FramePiece) -> None:
            try:
                jobs.put(lambda: clips.write(piece))
            except RuntimeError:  # the threads were shut down after an error elsewhere
                piece.release()

        handle.frame_stream.listen(write)
        handle.output_ready.add_done_callback(lambda _: jobs.put(lambda: self._finish(handle)))

    def note(self, text: str) -> None:
        """Emit `text` as a warning for people."""
        self._observe(Note(at=time.monotonic(), level="warning", text=text))

    def has_partial_video(self, handle: Handle) -> bool:
        """Whether cancelling this request now would keep a partial video."""
        clips = self._clips.get(handle.output_id)
        return self._keep_partial and clips is not None and clips.has_frames

    def cancel(self, planned: PlannedRequest, clips: Clips | None = None) -> Result:
        """Emit and return the row of a cancelled request; append it only if a partial video of `clips` is kept."""
        partial = clips.keep() if clips is not None and self._keep_partial else []
        row = self._rows.cancelled(planned, partial)
        if partial:
            with contextlib.suppress(RequestCancelled, StorageError):  # the files stay, with or without a row
                self.disk.store(lambda: self._append(row))
        return self._emit(row)

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish what has begun, or after an exception drop what waits; remove partial files."""
        self._threads.shutdown(wait=True, cancel_futures=kind is not None)
        for clips in self._clips.values():
            clips.close()

    def _finish(self, handle: Handle) -> None:
        """End the request with exactly one entry on the queue, whatever happens: its reader would wait forever."""
        try:
            self.ended.put(self._end(handle))
        except OmniGenError as error:
            self.ended.put(error)
        except BaseException as error:
            logger.exception("finishing request %r failed", handle.planned.id)
            self.ended.put(
                EngineError(f"finishing request {handle.planned.id!r} failed: {type(error).__name__}: {error}")
            )

    def _end(self, handle: Handle) -> Result | Rerender:
        """Store the output and the row, then remove the preview. Raises EngineError if the engine died."""
        planned, future = handle.planned, handle.output_ready
        try:
            with contextlib.closing(self._clips.pop(handle.output_id)) as clips:
                match RequestCancelled() if future.cancelled() else future.exception():
                    case RequestCancelled():
                        return self.cancel(planned, clips)
                    case RequestError() as error:
                        ended: Result | Rerender = self._failed(planned, error)
                    case None:
                        ended = self._write(planned, future.result(), clips)
                    case error:
                        raise error
                return ended if isinstance(ended, Rerender) else self._emit(self._journaled(ended))
        finally:
            if self._previews is not None:
                self._previews.close(planned)

    def _write(self, planned: PlannedRequest, output: Output, clips: Clips) -> Result | Rerender:
        """Place the files of every sample, encoded from the output's slot, then release it."""
        self._observe(EncodeStarted(at=time.monotonic(), id=planned.id))
        try:
            written = clips.finish(output.header) if output.pieces else list(self._samples.write(planned, output))
        except RequestCancelled:
            return self._rows.cancelled(planned)
        except RequestError as error:
            frames_lost = isinstance(error, StorageError) and output.pieces > 0
            if frames_lost and self._rerender and planned.id not in self._rerendered:
                return self._request_rerender(planned, clips.nbytes)
            return self._failed(planned, error, output)
        finally:
            output.release()
        encode, write = total([one.encode for one in written]), total([one.write for one in written])
        self._observe(EncodeDone(at=time.monotonic(), id=planned.id, encode=encode, write=write))
        return self._rows.done(planned, output, written, encode, write)

    def _request_rerender(self, planned: PlannedRequest, nbytes: int) -> Result | Rerender:
        """Wait until the disk takes more than the `nbytes` that were lost, then ask for the frames again, once."""
        self._rerendered.add(planned.id)
        try:
            self._samples.wait_for_room(planned, nbytes)
        except RequestCancelled:
            return self._rows.cancelled(planned)
        except StorageError as error:
            return self._failed(planned, error)
        return Rerender(planned)

    def _failed(self, planned: PlannedRequest, error: RequestError, output: Output | None = None) -> Result:
        logger.error("request %r failed: %s: %s", planned.id, error.kind, error, exc_info=error)
        return self._rows.failed(planned, error, output)

    def _journaled(self, row: Result) -> Result:
        """Append `row` to the journal and return it; a cancelled one is not appended, so that the next run renders it.

        Raises StorageUnavailable if the journal cannot be written.
        """
        if row.status == "cancelled":
            return row
        try:
            self.disk.store(lambda: self._append(row))
        except RequestCancelled:
            return structs.replace(row, status="cancelled", files=())
        except StorageError as fault:
            raise StorageUnavailable(str(fault)) from fault
        return row

    def _emit(self, row: Result) -> Result:
        self._observe(RequestFinished(at=time.monotonic(), result=row))
        return row
