"""The writers' desk: from an OUTPUT_READY future to files in place and a manifest row.

    pump thread ── future resolved ──> writer thread: encode from the slot ─> place ─> row ─> slot released ─> result queue
                └─ piece of a video ──> writer thread: encode ─> slot released        (in order, before the future's turn)

A request ends here, whichever way it went: with one row, or - if the engine itself is gone - with the engine's error.
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

from omni_cli.batch.clips import Clips
from omni_cli.batch.cores import yield_cores
from omni_cli.batch.filing import Filing
from omni_cli.batch.lane import Lane
from omni_cli.batch.previews import Previews
from omni_cli.batch.storage import Storage
from omni_cli.config import OutputConfig
from omni_cli.errors import EngineError, OmniGenError, RequestCancelled, RequestError, StorageFault, StorageLost
from omni_cli.events import EncodeDone, EncodeStarted, Note, Observer, RequestFinished
from omni_cli.executor.feed import FramePiece
from omni_cli.executor.protocol import Handle, Output
from omni_cli.log import logger
from omni_cli.request import (
    ErrorInfo,
    GenerationRequest,
    Interval,
    Made,
    ModelInfo,
    OutputFile,
    PlannedRequest,
    Result,
    Status,
    Timings,
)


@dataclass(frozen=True, slots=True)
class Again:
    """A request whose frames are gone because the disk did not take them, while they were still being decoded."""

    planned: PlannedRequest


Ended = Result | OmniGenError | Again
"""What the queue gives: a row, a request that is to be rendered once more, or the error that ends the run."""


class Desk:
    """Writer threads over one output folder."""

    def __init__(
        self,
        config: OutputConfig,
        model_of: Callable[[GenerationRequest], ModelInfo],
        append: Callable[[Result], None],
        observer: Observer,
        *,
        made_of: Callable[[GenerationRequest], Made | None] = lambda request: None,
        writers: int,
        background: bool = False,
        storage: Storage | None = None,
        previews: Previews | None = None,
        rerender: bool = False,
    ) -> None:
        """`model_of` tells which model renders a request, `append` journals a row. `background`: encode at lower priority,
        where the forward needs the same cores.

        `storage` has the last word on what becomes of a file or a row that the disk does not take. `rerender`: whoever
        takes from the queue knows what to do with Again.
        """
        self._model_of, self._made_of = model_of, made_of
        self._append = append
        self._observe = observer
        self.storage = storage or Storage(Path(config.output_dir), config.disk_wait, note=self.note)
        self._previews = previews
        self._filing = Filing(config, model_of, made_of, self.storage)
        self.ended: queue.SimpleQueue[Ended | None] = queue.SimpleQueue()
        self._clips: dict[str, Clips] = {}
        self.keep_partial = config.keep_partial
        self._rerender = rerender
        self._repeated: set[str] = set()
        self._threads = ThreadPoolExecutor(writers, "writer", yield_cores if background else None)

    def announce(self, call: Sequence[PlannedRequest]) -> None:
        """These requests are about to be submitted."""
        if self._previews is not None:
            self._previews.open(call)

    def expect(self, handle: Handle) -> None:
        """Write this request's frames as they come, and finish it as soon as its output is there. The pump only hands them on."""
        planned = handle.planned  # the handle keeps its feed, which must not keep the handle
        lane, clips = Lane(self._threads), Clips(lambda sample: self._filing.clip_writer(planned, sample))
        self._clips[handle.output_id] = clips

        def take(piece: FramePiece) -> None:
            try:
                lane.do(lambda: clips.take(piece))
            except RuntimeError:  # the desk has closed before the request ended: something else is wrong
                piece.release()

        handle.feed.listen(take)
        handle.output_ready.add_done_callback(lambda _: lane.do(lambda: self._finish(handle)))

    def note(self, text: str) -> None:
        """A line for people."""
        self._observe(Note(at=time.monotonic(), level="warning", text=text))

    def __enter__(self) -> Self:
        """The desk itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish what has begun; leave nothing of what cannot be."""
        self._threads.shutdown(wait=True, cancel_futures=kind is not None)
        for clips in self._clips.values():
            clips.close()

    def _finish(self, handle: Handle) -> None:
        """Every way through ends in exactly one entry on the queue: a waiter is never left."""
        try:
            self.ended.put(self._put_away(handle))
        except OmniGenError as error:
            self.ended.put(error)
        except BaseException as error:
            logger.exception("finishing request %r failed", handle.planned.id)
            self.ended.put(
                EngineError(f"finishing request {handle.planned.id!r} failed: {type(error).__name__}: {error}")
            )

    def _put_away(self, handle: Handle) -> Ended:
        """The request's row; its preview is gone then, however it ended."""
        try:
            with contextlib.closing(self._clips.pop(handle.output_id)) as clips:
                return self._end(handle, clips)
        finally:
            if self._previews is not None:
                self._previews.close(handle.planned)

    def has_frames(self, handle: Handle) -> bool:
        """True if cancelling this request now would leave a part of its video."""
        clips = self._clips.get(handle.output_id)
        return self.keep_partial and clips is not None and clips.begun

    def _cut_short(self, planned: PlannedRequest, clips: Clips) -> Result:
        """The row of a cancelled request; with files, and in the journal, if what there is of them is kept."""
        files = tuple(written.file for written in clips.keep()) if self.keep_partial else ()
        if not files:
            return self.cancelled(planned)
        notes = tuple(f"cancelled: the first {file.frames} frames are kept in {file.path}" for file in files)
        result = self._row(planned, "cancelled", files=files, notes=notes)
        with contextlib.suppress(
            RequestCancelled, StorageFault
        ):  # the files are there, whether a row tells of them or not
            self.storage.store(lambda: self._append(result))
        return self._told(result)

    def cancelled(self, planned: PlannedRequest) -> Result:
        """The row of a request that is given up."""
        return self._told(self._row(planned, "cancelled"))

    def _end(self, handle: Handle, clips: Clips) -> Result | Again:
        """The request's row, journaled. Raises EngineError if the engine, not the request, is at fault."""
        planned = handle.planned
        error = None if handle.output_ready.cancelled() else handle.output_ready.exception()
        if isinstance(error, EngineError):
            raise error
        if handle.output_ready.cancelled() or isinstance(error, RequestCancelled):
            return self._cut_short(planned, clips)
        if isinstance(error, RequestError):
            result = self._failed(planned, error)
        elif error is not None:
            raise error
        else:
            made = self._write(planned, handle.output_ready.result(), clips)
            if isinstance(made, Again):
                return made
            result = made
        return self._told(self._journaled(result))

    def _journaled(self, result: Result) -> Result:
        """`result` with its row in the journal; a cancelled one has none, so that it is rendered the next time."""
        if result.status == "cancelled":
            return result
        try:
            self.storage.store(lambda: self._append(result))
        except RequestCancelled:
            return structs.replace(result, status="cancelled", files=())
        except StorageFault as fault:
            raise StorageLost(str(fault)) from fault
        return result

    def _told(self, result: Result) -> Result:
        """`result`, after the observer has heard of it."""
        self._observe(RequestFinished(at=time.monotonic(), result=result))
        return result

    def _write(self, planned: PlannedRequest, output: Output, clips: Clips) -> Result | Again:
        """Have every sample of the output in place, encoded from where it lies, then give the memory back."""
        self._observe(EncodeStarted(at=time.monotonic(), id=planned.id))
        encode = write = Interval(0.0, 0.0)
        files: list[OutputFile] = []
        notes = list(output.notes)
        try:
            for written in clips.finish(output.header) if output.pieces else self._filing.written(planned, output):
                files.append(written.file)
                notes += [note for note in written.notes if note not in notes]
                encode, write = _join(encode, written.encode), _join(write, written.write)
        except RequestCancelled:
            return self._row(planned, "cancelled")
        except RequestError as error:
            lost = isinstance(error, StorageFault) and output.pieces > 0
            if lost and self._rerender and planned.id not in self._repeated:
                return self._once_more(planned, clips.nbytes)
            return self._failed(planned, error, output)
        finally:
            output.release()
        self._observe(EncodeDone(at=time.monotonic(), id=planned.id, encode=encode, write=write))
        timings = _timings(output, encode, write)
        row = self._row(
            planned, "done", files=tuple(files), timings=timings, attempts=output.attempts, notes=tuple(notes)
        )
        if output.stopped_at is None:
            return row
        # Other pixels than the request's own: a run that is not stopped renders it again.
        return structs.replace(row, fingerprint=f"{planned.fingerprint}-stopped-at-{output.stopped_at}")

    def _once_more(self, planned: PlannedRequest, nbytes: int) -> Result | Again:
        """Frames that have left cannot be stored a second time: they are rendered again, once the disk takes more than had come."""
        self._repeated.add(planned.id)
        try:
            self._filing.make_sure_of_room(planned, nbytes)
        except RequestCancelled:
            return self._row(planned, "cancelled")
        except StorageFault as error:
            return self._failed(planned, error)
        return Again(planned)

    def _failed(self, planned: PlannedRequest, error: RequestError, output: Output | None = None) -> Result:
        info = ErrorInfo(kind=error.kind, message=str(error))
        logger.error("request %r failed: %s: %s", planned.id, error.kind, error, exc_info=error)
        if output is None:
            return self._row(planned, "failed", error=info, attempts=error.attempts)
        return self._row(
            planned, "failed", error=info, timings=_timings(output), attempts=output.attempts, notes=output.notes
        )

    def _row(
        self,
        planned: PlannedRequest,
        status: Status,
        *,
        files: tuple[OutputFile, ...] = (),
        timings: Timings = Timings(),  # noqa: B008 - frozen
        attempts: int = 1,
        error: ErrorInfo | None = None,
        notes: tuple[str, ...] = (),
    ) -> Result:
        return Result(
            id=planned.id,
            index=planned.index,
            status=status,
            files=files,
            seeds=planned.seeds,
            request=planned.request,
            fingerprint=planned.fingerprint,
            model=self._model_of(planned.request),
            made=self._made_of(planned.request),
            timings=timings,
            attempts=attempts,
            error=error,
            notes=notes,
        )


def _join(total: Interval, part: Interval) -> Interval:
    """Intervals of consecutive files as one: from the first start, as long as all of them together."""
    start = total.start or part.start
    return Interval(start, start + total.seconds + part.seconds)


def _timings(output: Output, encode: Interval = Interval(0, 0), write: Interval = Interval(0, 0)) -> Timings:  # noqa: B008
    return Timings(
        queued=output.queued.seconds,
        forward=output.forward.seconds,
        d2h=output.d2h.seconds,
        encode=encode.seconds,
        write=write.seconds,
    )
