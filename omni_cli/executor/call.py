"""The records of the call queue: a call, its requests, and its state."""

from dataclasses import dataclass
from enum import StrEnum

from omni_cli.config import ModelConfig
from omni_cli.executor.protocol import Handle
from omni_cli.executor.step_controller import StepController
from omni_cli.request import Interval
from omni_cli.transport.messages import ExecuteModel, ExecuteStepwise

MAX_RUNNING_DEATHS = 2
"""A request fails once it has cost so many workers."""

HELD_CHECK_S = 1.0
"""Seconds after which an output that the parent's own writers hold up is looked at again."""

MAX_ATTEMPTS = 4
"""A request fails when its worker dies after its forward was started this many times."""


class CallState(StrEnum):
    """The progress of a call."""

    WAITING = "waiting"
    SENT = "sent"
    RUNNING = "running"
    COMPUTED = "computed"


@dataclass(slots=True, eq=False)
class RequestEntry:
    """An unfinished request.

    `attempts` counts the forwards that were started, `deaths` those that cost their worker: it died meanwhile, or their
    output did not come (`is_late`). `queued_at` is in seconds on the queue's clock.
    """

    handle: Handle
    queued_at: float
    attempts: int = 0
    deaths: int = 0
    is_late: bool = False
    forward: Interval | None = None

    @property
    def exhausted(self) -> bool:
        """Whether the request must not be tried again after a worker's death."""
        return self.deaths >= MAX_RUNNING_DEATHS or self.attempts >= MAX_ATTEMPTS


@dataclass(slots=True, eq=False)
class Call:
    """A pipeline call. `entries` maps output ids to unfinished requests and shrinks as outputs arrive.

    `model` must be loaded for it; None means whichever model is. `step_controller` is set for a call in step mode.
    `deadline` is when the call must have left its state, None for no limit; while the deadline is frozen, `remaining`
    holds the seconds that were left. `is_held` says that its output is late while the parent's writers hold slots.
    `is_forward_reported` says that the observer has been told of its forward.
    `forward_limit` is how long its forward may take, or wait for its next frames to leave, in seconds.
    """

    rpc_id: int
    batch_id: str
    entries: dict[str, RequestEntry]
    since: float
    model: ModelConfig | None = None
    state: CallState = CallState.WAITING
    worker: int | None = None
    deadline: float | None = None
    step_controller: StepController | None = None
    remaining: float | None = None
    is_held: bool = False
    is_forward_reported: bool = False
    forward_limit: float | None = None

    def enter(self, state: CallState, now: float, timeout: float | None = None) -> None:
        """Change to `state` at `now`, with a deadline `timeout` seconds later."""
        self.state, self.since = state, now
        self.deadline = None if timeout is None else now + timeout

    def restart_deadline(self, now: float, timeout: float) -> None:
        """Give a call that has a deadline `timeout` seconds from now."""
        if self.deadline is not None:
            self.deadline, self.is_held = now + timeout, False

    def freeze_deadline(self, now: float) -> None:
        """Stop the time limit while the call waits for a step decision."""
        self.remaining = None if self.deadline is None else self.deadline - now
        self.deadline = None

    def resume_deadline(self, now: float) -> None:
        """Restart the time limit after a step decision."""
        self.deadline = None if self.remaining is None else now + self.remaining

    def is_overdue(self, now: float) -> bool:
        """Return whether the deadline has passed."""
        return self.deadline is not None and self.deadline <= now

    def request_ids(self) -> tuple[str, ...]:
        """Return the ids of the unfinished requests."""
        return tuple(entry.handle.planned.id for entry in self.entries.values())

    def take_forward_ids(self) -> tuple[str, ...]:
        """Return the ids of the unfinished requests the first time, to report their forward; nothing after that."""
        ids = () if self.is_forward_reported else self.request_ids()
        self.is_forward_reported = True
        return ids

    def to_message(self) -> ExecuteModel | ExecuteStepwise:
        """Build the message that starts the call."""
        requests = tuple(entry.handle.planned for entry in self.entries.values())
        if self.step_controller is None:
            return ExecuteModel(rpc_id=self.rpc_id, batch_id=self.batch_id, requests=requests)
        latents = self.step_controller.latents
        return ExecuteStepwise(rpc_id=self.rpc_id, batch_id=self.batch_id, requests=requests, latents=latents)

    def describe(self, now: float) -> str:
        """Return one line for the log that tells whether the worker, the pump or a waiter stalled."""
        awaited = ", ".join(self.entries) or "its end"
        seconds = f"{now - self.since:.1f} s"
        return f"call {self.rpc_id}: {self.state} for {seconds}, worker {self.worker}: awaiting {awaited}"


@dataclass(frozen=True, slots=True)
class Assignment:
    """A call that leaves the queue for `worker`.

    `message` is None if all its requests were `cancelled` by their holders.
    """

    worker: int
    message: ExecuteModel | ExecuteStepwise | None
    cancelled: tuple[Handle, ...]


@dataclass(frozen=True, slots=True)
class Removed:
    """Requests that were removed from the queue, and (worker, rpc id) of sent calls that have no request left."""

    entries: tuple[RequestEntry, ...]
    abandoned_calls: tuple[tuple[int, int], ...]
