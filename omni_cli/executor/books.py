"""The executor's books: every request from submit to its last future, in one container, under one lock.

    waiting ──sent──> sent ──Started──> running ──ComputeDone──> computed ──OutputReady──> (gone)
       ^                │                  │                        │
       └── worker died: requeued ──────────┴────────────────────────┘   (running in two deaths: failed)

Nothing here sends, waits or resolves a future: methods change state and return what is to be done, so that every order of
events can be tested without a process.
"""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic

from omni_cli.executor.protocol import Handle
from omni_cli.request import Interval, PlannedRequest

MAX_RUNNING_DEATHS = 2
"""A request that was running when a worker died this many times is not tried again."""


class State(StrEnum):
    """Where a call is."""

    WAITING = "waiting"
    SENT = "sent"
    RUNNING = "running"
    COMPUTED = "computed"


@dataclass(slots=True, eq=False)
class Entry:
    """One request that is not finished; `rpc_id` and `worker` are of the call it was last sent in."""

    handle: Handle
    queued_at: float
    rpc_id: int | None = None
    worker: int | None = None
    attempts: int = 1
    deaths: int = 0
    forward: Interval | None = None


@dataclass(slots=True, eq=False)
class Call:
    """One pipeline call: the requests that travel together. `entries` shrinks as their outputs arrive."""

    rpc_id: int
    batch_id: str
    entries: dict[str, Entry]
    state: State = State.WAITING
    worker: int | None = None
    deadline: float | None = None
    since: float = 0.0

    def requests(self) -> tuple[PlannedRequest, ...]:
        """What is to be sent."""
        return tuple(entry.handle.planned for entry in self.entries.values())

    def handles(self) -> tuple[Handle, ...]:
        """Whose futures are open."""
        return tuple(entry.handle for entry in self.entries.values())


class Books:
    """All calls by rpc id, and the queue of those not sent."""

    def __init__(self, depth: int) -> None:
        """`depth`: calls a worker may hold whose forward is not over - the running one and those in its inbox."""
        self._lock = threading.Lock()
        self._depth = depth
        self._calls: dict[int, Call] = {}
        self._waiting: deque[Call] = deque()
        self._by_output: dict[str, Call] = {}
        self._rpc_ids = 0

    def new_rpc_id(self) -> int:
        """Ids are never used twice."""
        with self._lock:
            self._rpc_ids += 1
            return self._rpc_ids

    def add(self, requests: Sequence[PlannedRequest]) -> tuple[Handle, ...]:
        """A new call, waiting. Output ids are `{batch_id}/{request_id}`."""
        rpc_id = self.new_rpc_id()
        batch_id = f"batch-{rpc_id}"
        handles = tuple(Handle(request, f"{batch_id}/{request.id}") for request in requests)
        now = monotonic()
        call = Call(rpc_id, batch_id, {h.output_id: Entry(h, now) for h in handles}, since=now)
        with self._lock:
            self._enter(call)
            self._waiting.append(call)
        return handles

    def take_next(self, workers: Sequence[int]) -> Call | None:
        """The next call to send and its worker (`call.worker`): the least loaded of `workers` with room; None if there is none.

        Calls whose requests were all cancelled are dropped; a future leaves the cancellable state here.
        """
        with self._lock:
            load = dict.fromkeys(workers, 0)
            for call in self._calls.values():
                if call.worker in load and call.state in (State.SENT, State.RUNNING):
                    load[call.worker] += 1
            worker = min(load, key=load.__getitem__, default=None)
            if worker is None or load[worker] >= self._depth:
                return None
            while self._waiting:
                call = self._waiting.popleft()
                for output_id, entry in list(call.entries.items()):
                    if not _claim(entry.handle):
                        self._remove(call, output_id)
                for entry in call.entries.values():
                    entry.rpc_id, entry.worker = call.rpc_id, worker
                if call.entries:
                    call.state, call.worker, call.since = State.SENT, worker, monotonic()
                    return call
            return None

    def started(self, rpc_id: int) -> Call | None:
        """The worker's main thread took the call."""
        with self._lock:
            call = self._calls.get(rpc_id)
            if call is not None:
                call.state, call.since = State.RUNNING, monotonic()
            return call

    def running(self, rpc_id: int) -> Call | None:
        """The call, if it is still in the books."""
        with self._lock:
            return self._calls.get(rpc_id)

    def computed(self, rpc_id: int, forward: Interval, output_timeout: float) -> Call | None:
        """The forward is over; the clock of the output wait starts."""
        with self._lock:
            call = self._calls.get(rpc_id)
            if call is not None:
                call.state, call.since = State.COMPUTED, monotonic()
                call.deadline = call.since + output_timeout
                for entry in call.entries.values():
                    entry.forward = forward
            return call

    def finish(self, output_id: str) -> Entry | None:
        """The request's output arrived, or is given up: it leaves the books. None if it already has."""
        with self._lock:
            call = self._by_output.get(output_id)
            return self._remove(call, output_id) if call is not None else None

    def drop(self, rpc_id: int) -> tuple[Entry, ...]:
        """The whole call leaves the books."""
        with self._lock:
            call = self._calls.get(rpc_id)
            if call is None:
                return ()
            return tuple(self._remove(call, output_id) for output_id in list(call.entries))

    def drop_not_begun(self) -> tuple[Entry, ...]:
        """Every call whose forward has not begun leaves the books."""
        with self._lock:
            calls = [call for call in self._calls.values() if call.state in (State.WAITING, State.SENT)]
            self._waiting.clear()
            return tuple(self._remove(call, output_id) for call in calls for output_id in list(call.entries))

    def worker_died(self, worker: int) -> tuple[Entry, ...]:
        """Requeue what the worker held, in order and in front; return the requests that have now died running too often.

        A call that was running is split, so that one poisonous request does not take its batch along a second time.
        """
        with self._lock:
            held = [call for call in self._calls.values() if call.worker == worker and call.state is not State.WAITING]
            failed: list[Entry] = []
            for call in reversed(held):
                was_running = call.state is State.RUNNING
                entries = list(call.entries.items())
                for output_id, entry in entries:
                    self._remove(call, output_id)
                    entry.attempts += 1
                    entry.deaths += was_running
                doomed = [e for _, e in entries if e.deaths >= MAX_RUNNING_DEATHS]
                alive = {o: e for o, e in entries if e.deaths < MAX_RUNNING_DEATHS}
                failed += doomed
                groups = [{o: e} for o, e in alive.items()] if was_running else [alive]
                for group in reversed([g for g in groups if g]):
                    self._rpc_ids += 1
                    again = Call(self._rpc_ids, call.batch_id, group, since=monotonic())
                    self._enter(again)
                    self._waiting.appendleft(again)
            return tuple(failed)

    def overdue(self, now: float) -> tuple[Call, ...]:
        """Computed calls whose outputs have not come in time."""
        with self._lock:
            return tuple(c for c in self._calls.values() if c.deadline is not None and c.deadline <= now)

    def next_deadline(self) -> float | None:
        """The earliest deadline, on the monotonic clock."""
        with self._lock:
            return min((c.deadline for c in self._calls.values() if c.deadline is not None), default=None)

    def clear(self) -> tuple[Entry, ...]:
        """Empty the books; return what was in them."""
        with self._lock:
            entries = tuple(entry for call in self._calls.values() for entry in call.entries.values())
            self._calls.clear()
            self._by_output.clear()
            self._waiting.clear()
            return entries

    def lines(self) -> Iterator[str]:
        """One line per call, for the log: enough to tell whether the worker, the pump or the waiter stalled."""
        with self._lock:
            calls = list(self._calls.values())
        now = monotonic()
        for call in calls:
            ids = ", ".join(sorted(call.entries))
            yield f"call {call.rpc_id}: {call.state} for {now - call.since:.1f} s on worker {call.worker}: awaiting {ids}"

    def _enter(self, call: Call) -> None:
        self._calls[call.rpc_id] = call
        for output_id in call.entries:
            self._by_output[output_id] = call

    def _remove(self, call: Call, output_id: str) -> Entry:
        entry = call.entries.pop(output_id)
        del self._by_output[output_id]
        if not call.entries:
            del self._calls[call.rpc_id]
        return entry


def _claim(handle: Handle) -> bool:
    """Take both futures out of their holder's hands; False if the request was cancelled before.

    A requeued request's futures are running already, or its compute_done is resolved: they are left as they are.
    """
    if not handle.output_ready.running() and not handle.output_ready.set_running_or_notify_cancel():
        handle.compute_done.cancel()
        return False
    if not handle.compute_done.running() and not handle.compute_done.done():
        handle.compute_done.set_running_or_notify_cancel()
    return True
