"""The state of a run at one moment: frames and summaries are drawn from it alone."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from omni_cli.events import RunFinished
from omni_cli.notes import NoteCount
from omni_cli.trace import Figures
from omni_cli.view.workers import RequestInFlight, WorkerState

LineKind = Literal["loading", "ready", "info", "warning", "error"]


class StatusLine(NamedTuple):
    """A printable line for people."""

    kind: LineKind
    text: str


class Failure(NamedTuple):
    """A failed request and its error."""

    id: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """The run at `time`, in seconds of the events' clock.

    `per_second` is the recent rate of requests, None while unknown; `workers` are in the order of their numbers and
    `in_flight` in that of their forwards, both copies. `notes` are the most frequent kinds of notes on done requests.
    `stopping`: no new forwards begin.
    """

    time: float
    started: float | None
    model: str
    output_dir: str
    total: int | None
    skipped: int
    per_second: float | None
    workers: tuple[WorkerState, ...]
    in_flight: tuple[RequestInFlight, ...]
    failures: tuple[Failure, ...]
    notes: tuple[NoteCount, ...]
    figures: Figures
    stopping: bool
    end: RunFinished | None

    @property
    def finished(self) -> int:
        """Requests that have ended, whatever their status."""
        return self.figures.done + self.figures.failed + self.figures.cancelled

    @property
    def remaining(self) -> int | None:
        """Requests that have not ended; None while the total is unknown."""
        return None if self.total is None else max(0, self.total - self.finished)

    @property
    def eta(self) -> float | None:
        """Seconds until all requests end at the recent rate; None while unknown, and once the run is being stopped."""
        if self.stopping:
            return None
        return self.remaining / self.per_second if self.remaining is not None and self.per_second else None
