"""Manifest rows of requests, by how they ended."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from omni_cli.errors import RequestError
from omni_cli.executor.protocol import Output
from omni_cli.request import (
    UNNAMED_DEVICE,
    ErrorInfo,
    ExecutedOn,
    GenerationRequest,
    Interval,
    ModelInfo,
    PlannedRequest,
    Provenance,
    Result,
    Starts,
    Status,
    Timings,
)
from omni_cli.writers import WrittenFile


class Origin(NamedTuple):
    """The model that renders a request, and how: device, package versions, tuning, encoding."""

    model: ModelInfo
    made: Provenance | None = None

    def on(self, executed_on: ExecutedOn) -> "Origin":
        """Return the origin of an output computed there; a device without a name is that of the loaded model."""
        if self.made is None:
            return self
        device = executed_on.device or self.made.device
        return self._replace(made=structs.replace(self.made, device=device, threads=executed_on.threads))


OriginOf = Callable[[GenerationRequest], Origin]

NO_TIME = Interval(0.0, 0.0)


class RowBuilder:
    """Builds the rows of one run."""

    def __init__(self, origin_of: OriginOf) -> None:
        """`origin_of` returns the origin of a planned request's output. The run starts now."""
        self._origin_of = origin_of
        self._epoch = time.time() - time.monotonic()
        """The reading of the wall clock at 0 of the monotonic clock: it follows no change of the wall clock later."""
        self._run = round(self._epoch + time.monotonic(), 6)

    def done(
        self,
        planned: PlannedRequest,
        output: Output,
        written: Sequence[WrittenFile],
        encode: Interval,
        write: Interval,
    ) -> Result:
        """Return the row of a request whose planned files are all `written`; those of earlier runs are in it, too.

        An output that was stopped early gets a fingerprint of its own, so that a later run renders the request in full.
        """
        file_notes = dict.fromkeys(note for one in written for note in one.notes)  # each note once
        row = self._row(
            planned,
            "done",
            output.executed_on,
            files=tuple(one.file for one in written),
            timings=_timings(output, encode, write),
            starts=self._starts(output, encode, write),
            attempts=output.attempts,
            notes=(*planned.notes, *output.notes, *(note for note in file_notes if note not in output.notes)),
        )
        row = _with_finished(row, planned)
        if output.stopped_at is None:
            return row
        return structs.replace(row, fingerprint=f"{planned.fingerprint}-stopped-at-{output.stopped_at}")

    def failed(self, planned: PlannedRequest, error: RequestError, output: Output | None = None) -> Result:
        """Return the row of a request that `error` ended, before or after it had an `output`."""
        info = ErrorInfo(kind=error.kind, message=str(error))
        if output is None:
            return self._row(planned, "failed", error=info, attempts=error.attempts, notes=planned.notes)
        timings = _timings(output, NO_TIME, NO_TIME)
        return self._row(
            planned,
            "failed",
            output.executed_on,
            error=info,
            timings=timings,
            starts=self._starts(output),
            attempts=output.attempts,
            notes=(*planned.notes, *output.notes),
        )

    def cancelled(self, planned: PlannedRequest, partial: Sequence[WrittenFile] = ()) -> Result:
        """Return the row of a cancelled request; `partial` are files that hold its first frames."""
        files = tuple(written.file for written in partial)
        notes = tuple(f"cancelled: the first {file.frames} frames are kept in {file.path}" for file in files)
        return self._row(planned, "cancelled", files=files, notes=notes)

    def _starts(self, output: Output, encode: Interval | None = None, write: Interval | None = None) -> Starts:
        def since_1970(interval: Interval | None) -> float | None:
            return None if interval is None else round(self._epoch + interval.start, 6)

        return Starts(
            run=self._run,
            worker=output.worker,
            forward=since_1970(output.forward),
            d2h=since_1970(output.d2h),
            encode=since_1970(encode),
            write=since_1970(write),
        )

    def _row(
        self, planned: PlannedRequest, status: Status, executed_on: ExecutedOn = UNNAMED_DEVICE, **fields: Any
    ) -> Result:
        """Return a row with these further fields of Result; `executed_on` if the request got that far."""
        origin = self._origin_of(planned.request).on(executed_on)
        return Result(
            id=planned.id,
            index=planned.index,
            status=status,
            seeds=planned.seeds,
            request=planned.request,
            fingerprint=planned.fingerprint,
            model=origin.model,
            made=origin.made,
            inputs=planned.inputs,
            **{"starts": Starts(run=self._run), **fields},
        )


def total(intervals: Sequence[Interval]) -> Interval:
    """Return one interval from the first start, as long as all `intervals` together."""
    start = intervals[0].start if intervals else 0.0
    return Interval(start, start + sum(interval.seconds for interval in intervals))


def _with_finished(row: Result, planned: PlannedRequest) -> Result:
    """Return `row` with the outputs of `planned` that were finished before, all in the order of their numbers."""
    if not planned.finished:
        return row
    outputs = {planned.number(n): (seed, file) for n, (seed, file) in enumerate(zip(row.seeds, row.files, strict=True))}
    outputs |= {output.number: (output.seed, output.file) for output in planned.finished}
    seeds, files = zip(*(outputs[number] for number in sorted(outputs)), strict=True)
    request = structs.replace(row.request, num_outputs=len(outputs))
    return structs.replace(row, seeds=seeds, files=files, request=request)


def _timings(output: Output, encode: Interval, write: Interval) -> Timings:
    return Timings(
        queued=output.queued.seconds,
        forward=output.forward.seconds,
        d2h=output.d2h.seconds,
        encode=encode.seconds,
        write=write.seconds,
    )
