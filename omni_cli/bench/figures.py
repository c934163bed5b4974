"""What `omni_cli.trace` makes of rounds: the only source of idle times, hidden shares and traces here."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median

import msgspec

from omni_cli.bench.arms import Ready, Round
from omni_cli.events import (
    AnyEvent,
    EncodeDone,
    ForwardDone,
    ForwardStarted,
    ModelReady,
    OutputReady,
)
from omni_cli.trace import Figures, Timeline


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """How well an arm keeps its device busy. Shares 0..1 and bytes are medians over rounds, the gap is the longest of all.

    `output_hidden` is of the steady state: the last call's output has no forward to hide behind and is left out; None where
    there was but one call. `bytes_moved` is per request; 0 where the arm does not tell.
    """

    output_hidden: float | None
    device_idle: float | None
    longest_gap: float | None
    bytes_moved: float


def figures_of(events: Iterable[AnyEvent]) -> Figures:
    """The figures of `events`."""
    timeline = Timeline()
    for event in events:
        timeline(event)
    return timeline.figures()


def flow_of(rounds: Iterable[Round]) -> Flow:
    """The figures of an arm over its rounds."""
    taken = [(turn, figures_of(turn.events), figures_of(steady(turn.events))) for turn in rounds]
    gaps = [whole.longest_gap for _, whole, _ in taken if whole.longest_gap is not None]
    return Flow(
        output_hidden=_median(part.output_hidden for _, _, part in taken),
        device_idle=_median(whole.device_idle for _, whole, _ in taken),
        longest_gap=max(gaps, default=None),
        bytes_moved=median(whole.bytes_moved / turn.requests for turn, whole, _ in taken),
    )


def steady(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """`events` without the output of the last call."""
    events = list(events)
    forwards = [event for event in events if isinstance(event, ForwardDone)]
    # On an accelerator each request of a call tells of the call's forward by itself, with an equal interval but for the
    # clock's error: whatever has its middle in the last forward is the last call.
    begin = max((event.forward.start for event in forwards), default=0.0)
    last = {name for e in forwards if (e.forward.start + e.forward.end) / 2 > begin for name in e.ids}
    return [e for e in events if not (isinstance(e, OutputReady | EncodeDone) and e.id in last)]


def write_trace(path: Path, rounds: Mapping[str, Round], ready: Mapping[str, Ready]) -> None:
    """A Chrome trace of one round of every arm, each arm drawn as a worker of its own, on the clock they ran by."""
    timeline = Timeline(keep_spans=True)
    for number, (name, turn) in enumerate(rounds.items()):
        facts = ready[name]
        timeline(
            ModelReady(
                at=turn.events[0].at,
                worker=number,
                pipeline=f"{name} · {facts.pipeline}",
                device=facts.device,
                dtype=facts.dtype,
                seconds=facts.seconds,
            )
        )
        for event in turn.events:
            timeline(_moved(event, number, name))
    timeline.write_chrome_trace(path)


def _moved(event: AnyEvent, worker: int, arm: str) -> AnyEvent:
    """`event` as of another worker, its request named after the arm: all arms render the same ids."""
    replace = msgspec.structs.replace
    match event:
        case ForwardStarted() | ForwardDone():
            return replace(event, worker=worker, ids=tuple(f"{arm}/{name}" for name in event.ids))
        case OutputReady():
            return replace(event, worker=worker, id=f"{arm}/{event.id}")
        case EncodeDone():
            return replace(event, id=f"{arm}/{event.id}")
        case _:
            return event


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
