"""What the executor's books are kept of: a call, its requests, and where it is."""

from dataclasses import dataclass
from enum import StrEnum

from omni_cli.config import ModelConfig
from omni_cli.executor.protocol import Handle
from omni_cli.executor.steering import Steering
from omni_cli.request import Interval
from omni_cli.transport.messages import ExecuteModel, ExecuteStepwise

MAX_RUNNING_DEATHS = 2
"""A request that was running when a worker died this many times is not tried again."""

MAX_ATTEMPTS = 4
"""Nor is one whose forward was begun this many times and whose output never came."""


class State(StrEnum):
    """Where a call is."""

    WAITING = "waiting"
    SENT = "sent"
    RUNNING = "running"
    COMPUTED = "computed"


@dataclass(slots=True, eq=False)
class Entry:
    """One request that is not finished. `attempts` counts forwards begun, `deaths` those that a worker's death ended."""

    handle: Handle
    queued_at: float
    attempts: int = 0
    deaths: int = 0
    forward: Interval | None = None

    @property
    def hopeless(self) -> bool:
        """True if it has taken too many workers along."""
        return self.deaths >= MAX_RUNNING_DEATHS or self.attempts >= MAX_ATTEMPTS


@dataclass(slots=True, eq=False)
class Call:
    """One pipeline call: the requests that travel together. `entries` (by output id) shrinks as their outputs arrive.

    `model` is what must be loaded for it; None for whatever is. `steering` leads it step by step; without it the call runs at
    one go. `left` is what a hold leaves of its time, in seconds.
    """

    rpc_id: int
    batch_id: str
    entries: dict[str, Entry]
    since: float
    model: ModelConfig | None = None
    state: State = State.WAITING
    worker: int | None = None
    deadline: float | None = None
    steering: Steering | None = None
    left: float | None = None

    def enter(self, state: State, now: float, allowed: float | None = None) -> None:
        """Go on to `state`, in which the call may stay `allowed` seconds."""
        self.state, self.since = state, now
        self.deadline = None if allowed is None else now + allowed

    def hold(self, now: float) -> None:
        """It waits for a decision: its time stands still."""
        self.left = None if self.deadline is None else self.deadline - now
        self.deadline = None

    def go_on(self, now: float) -> None:
        """It was decided."""
        self.deadline = None if self.left is None else now + self.left

    def ids(self) -> tuple[str, ...]:
        """The ids of its unfinished requests."""
        return tuple(entry.handle.planned.id for entry in self.entries.values())

    def line(self, now: float) -> str:
        """For the log: enough to tell whether the worker, the pump or the waiter stalled."""
        awaited = ", ".join(self.entries) or "its end"
        return (
            f"call {self.rpc_id}: {self.state} for {now - self.since:.1f} s, worker {self.worker}: awaiting {awaited}"
        )

    def is_due(self, now: float) -> bool:
        """True if it has been in its state for too long."""
        return self.deadline is not None and self.deadline <= now


@dataclass(frozen=True, slots=True)
class Sending:
    """The next step of the queue: `message` goes to `worker`, or is None if all its requests were `cancelled` before."""

    worker: int
    message: ExecuteModel | ExecuteStepwise | None
    cancelled: tuple[Handle, ...]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Entries taken out, and (worker, rpc id) of calls that were sent and that nobody waits for any more."""

    entries: tuple[Entry, ...]
    orphans: tuple[tuple[int, int], ...]


def message_of(call: Call) -> ExecuteModel | ExecuteStepwise:
    """What sends the call off."""
    rpc_id, batch_id = call.rpc_id, call.batch_id
    requests = tuple(entry.handle.planned for entry in call.entries.values())
    if call.steering is None:
        return ExecuteModel(rpc_id=rpc_id, batch_id=batch_id, requests=requests)
    return ExecuteStepwise(rpc_id=rpc_id, batch_id=batch_id, requests=requests, latents=call.steering.latents)
