"""The run at one moment, copied out of the board: what frames and summaries are drawn from."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from omni_cli.events import RunFinished
from omni_cli.trace import Figures
from omni_cli.view.workers import Block, Flight, Phase

LineKind = Literal["loading", "ready", "info", "warning", "error"]


class Line(NamedTuple):
    """A line for people, printable."""

    kind: LineKind
    text: str


class Failure(NamedTuple):
    """A request that failed, and why."""

    id: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class WorkerNow:
    """A worker at one moment. `loading` is None once the model is there."""

    number: int
    title: str
    loading: str | None
    loading_since: float
    step: int
    total: int
    typical: float
    flights: tuple[Flight, ...]
    lanes: dict[Phase, tuple[Block, ...]]
    last: dict[Phase, str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The run at the moment `now`. `per_second` is the recent rate, None while unknown."""

    now: float
    started: float | None
    model: str
    output_dir: str
    total: int | None
    skipped: int
    done: int
    failed: int
    cancelled: int
    per_second: float | None
    workers: tuple[WorkerNow, ...]
    failures: tuple[Failure, ...]
    figures: Figures
    ended: RunFinished | None

    @property
    def finished(self) -> int:
        """Requests that are over, however they went."""
        return self.done + self.failed + self.cancelled

    @property
    def left(self) -> int | None:
        """Requests that are not over yet; None while the total is not known."""
        return None if self.total is None else max(0, self.total - self.finished)

    @property
    def eta(self) -> float | None:
        """Seconds until all are over at the recent rate; None while that is not known."""
        return self.left / self.per_second if self.left is not None and self.per_second else None
