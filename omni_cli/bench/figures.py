"""Idle times, hidden shares and traces of rounds, all computed by `omni_cli.trace`."""

from collections.abc import Iterable
from pathlib import Path
from statistics import median

import msgspec

from omni_cli.bench.arms import Measurement, Round
from omni_cli.events import (
    AnyEvent,
    EncodeDone,
    ForwardDone,
    ForwardStarted,
    ModelReady,
    OutputArrived,
)
from omni_cli.trace import Figures, Timeline


class OverlapFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Use of the device by an arm: shares (0..1) and bytes are medians over rounds, the gap (seconds) is the longest.

    `output_hidden` is of the steady state: the last call's output has no forward to overlap with and is left out; None
    where there was only one call. `bytes_moved` is per request; 0 where the arm does not report it.
    """

    output_hidden: float | None
    device_idle: float | None
    longest_gap: float | None
    bytes_moved: float


def overlap_figures(rounds: Iterable[Round]) -> OverlapFigures:
    """Return the figures of an arm over its rounds."""
    rounds = list(rounds)
    whole = [_figures(turn.events) for turn in rounds]
    steady = [_figures(without_last_output(turn.events)) for turn in rounds]
    gaps = [figures.longest_gap for figures in whole if figures.longest_gap is not None]
    return OverlapFigures(
        output_hidden=_median(figures.output_hidden for figures in steady),
        device_idle=_median(figures.device_idle for figures in whole),
        longest_gap=max(gaps, default=None),
        bytes_moved=median(figures.bytes_moved / turn.requests for figures, turn in zip(whole, rounds, strict=True)),
    )


def _figures(events: Iterable[AnyEvent]) -> Figures:
    timeline = Timeline()
    for event in events:
        timeline(event)
    return timeline.figures()


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def without_last_output(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """Return `events` without the output of the last pipeline call."""
    events = list(events)
    forwards = [event for event in events if isinstance(event, ForwardDone)]
    last = max(forwards, key=lambda event: event.forward.start).ids if forwards else ()
    return [e for e in events if not (isinstance(e, OutputArrived | EncodeDone) and e.id in last)]


def write_trace(path: Path, measurement: Measurement) -> None:
    """Write a Chrome trace of the last rounds, each arm shown as a worker. Raises OSError."""
    timeline = Timeline(keep_spans=True)
    for number, (name, turn) in enumerate(measurement.last_rounds().items()):
        arm = measurement.loaded[name]
        timeline(
            ModelReady(
                at=turn.events[0].at,
                worker=number,
                pipeline=f"{name} · {arm.pipeline}",
                device=arm.device,
                dtype=arm.dtype,
                seconds=arm.seconds,
            )
        )
        for event in turn.events:
            timeline(_relabel(event, number, name))
    timeline.write_chrome_trace(path)


def _relabel(event: AnyEvent, worker: int, arm: str) -> AnyEvent:
    """Return `event` as one of `worker`, with the arm in front of the request id: all arms render the same ids."""
    replace = msgspec.structs.replace
    match event:
        case ForwardStarted() | ForwardDone():
            return replace(event, worker=worker, ids=tuple(f"{arm}/{name}" for name in event.ids))
        case OutputArrived():
            return replace(event, worker=worker, id=f"{arm}/{event.id}")
        case EncodeDone():
            return replace(event, id=f"{arm}/{event.id}")
        case _:
            return event
