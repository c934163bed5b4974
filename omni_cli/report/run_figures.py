"""The figures of the runs that rendered a folder, from the times in its rows."""

from collections.abc import Iterable, Sequence

import msgspec

from omni_cli.request import Interval, Result
from omni_cli.trace.overlap import Overlap


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the rows of one run that no later run has replaced.

    `started` is in seconds since 1970, all other times are seconds; `seconds` goes from the first forward to the end of
    the last phase. Forward figures are sums over workers. `output_hidden` is the share of d2h + encode + write that
    lies behind forwards of the worker that computed the request, `device_idle` the share of a worker's time between
    its first forward and its last in which it ran none; None where there is nothing to take a share of.
    """

    started: float
    seconds: float
    outputs: int
    requests: int
    failed: int
    outputs_per_second: float
    workers: int
    forwards: int
    forward_seconds: float
    output_seconds: float
    output_hidden: float | None
    device_idle: float | None
    longest_gap: float


def run_figures(rows: Iterable[Result]) -> list[RunFigures]:
    """Return the figures of each run in order of their starts; rows without recorded times count for none."""
    runs: dict[float, list[Result]] = {}
    for row in rows:
        if row.starts is not None:
            runs.setdefault(row.starts.run, []).append(row)
    return [_figures_of(started, runs[started]) for started in sorted(runs)]


def _figures_of(started: float, rows: Sequence[Result]) -> RunFigures:
    overlaps: dict[int, Overlap] = {}
    forwards: set[tuple[int, float]] = set()
    intervals = [(interval, worker, is_forward) for row in rows for interval, worker, is_forward in _intervals(row)]
    for interval, worker, is_forward in sorted(intervals, key=lambda each: each[0].end):
        overlap = overlaps.setdefault(worker, Overlap())
        if not is_forward:
            overlap.add_output(interval)
        elif (worker, interval.start) not in forwards:  # one forward computes all requests of a batch
            forwards.add((worker, interval.start))
            overlap.add_forward(interval)
    first = min((interval.start for interval, _, _ in intervals), default=started)
    seconds = max((interval.end for interval, _, _ in intervals), default=first) - first
    outputs = sum(len(row.files) for row in rows if row.status == "done")
    span = sum(overlap.span_seconds for overlap in overlaps.values())
    output_seconds = sum(overlap.output_seconds for overlap in overlaps.values())
    hidden = sum(overlap.hidden_seconds for overlap in overlaps.values())
    return RunFigures(
        started=started,
        seconds=seconds,
        outputs=outputs,
        requests=len(rows),
        failed=sum(row.status == "failed" for row in rows),
        outputs_per_second=outputs / seconds if seconds > 0 else 0.0,
        workers=len(overlaps),
        forwards=len(forwards),
        forward_seconds=sum(overlap.forward_seconds for overlap in overlaps.values()),
        output_seconds=output_seconds,
        output_hidden=min(1.0, hidden / output_seconds) if output_seconds > 0 else None,
        device_idle=sum(overlap.idle_seconds for overlap in overlaps.values()) / span if span > 0 else None,
        longest_gap=max((overlap.longest_gap for overlap in overlaps.values()), default=0.0),
    )


def _intervals(row: Result) -> list[tuple[Interval, int, bool]]:
    """Return the phases of `row` with its worker, and whether each is the forward."""
    starts, timings = row.starts, row.timings
    if starts is None or starts.worker is None:
        return []
    worker = starts.worker
    phases = [
        (starts.forward, timings.forward),
        (starts.d2h, timings.d2h),
        (starts.encode, timings.encode),
        (starts.write, timings.write),
    ]
    return [
        (Interval(start, start + seconds), worker, number == 0)
        for number, (start, seconds) in enumerate(phases)
        if start is not None
    ]
