"""The call queue: the state of every request from submit to its last future, under one lock.

    add ──> _waiting ──take_next──> _sent:  SENT ──Started──> RUNNING ──ComputeDone──> COMPUTED ──OutputReady──> removed
               ▲                             │                   │                        │
               └──── requeue: its worker died, the call goes to the front ────────────────┘   (exhausted requests fail)

A call is in one of two containers: `_waiting`, in sending order, or `_sent`, in the order in which calls were sent.
Every sent call is answered by one ComputeDone or by its worker's death. It stays in `_sent` until then even if all its
requests were cancelled, so that the load of each worker and a stuck forward are always known.

No method sends, waits or resolves a future. Methods change the state under the lock and return what they took out, so
every order of events can be tested without a process. Whoever takes a request out of the queue resolves its futures.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from time import monotonic

from omni_cli.config import ModelConfig
from omni_cli.errors import OmniGenError
from omni_cli.executor.call import HELD_CHECK_S, Assignment, Call, CallState, Removed, RequestEntry
from omni_cli.executor.futures import mark_running
from omni_cli.executor.protocol import Handle
from omni_cli.executor.step_controller import StepController
from omni_cli.request import Interval, PlannedRequest
from omni_cli.shape import Shape


class CallQueue:
    """All calls, waiting and sent. `end_reason` is set once it is closed."""

    def __init__(
        self, depth: int, output_timeout: float, new_id: Callable[[], int], clock: Callable[[], float] = monotonic
    ) -> None:
        """Create an empty queue.

        `depth` is how many calls a worker may have whose forward is not over. `output_timeout` is how many seconds an
        output may take after its forward or the output before it, and a worker until it starts its next call.
        """
        self._depth = depth
        self._output_timeout = output_timeout
        self._new_id = new_id
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: OrderedDict[int, Call] = OrderedDict()
        self._sent: dict[int, Call] = {}
        self._by_output: dict[str, Call] = {}
        self.end_reason: OmniGenError | None = None

    def add(
        self,
        requests: Sequence[PlannedRequest],
        step_controller: StepController | None = None,
        model: ModelConfig | None = None,
    ) -> tuple[Handle, ...]:
        """Append a call that needs `model`. Output ids are `{batch_id}/{request_id}`.

        Raises ValueError for no requests or equal ids, and `end_reason` once the queue is closed.
        """
        rpc_id, now = self._new_id(), self._clock()
        batch_id = f"batch-{rpc_id}"
        entries = {f"{batch_id}/{r.id}": RequestEntry(Handle(r, f"{batch_id}/{r.id}"), now) for r in requests}
        if not requests or len(entries) < len(requests):
            raise ValueError(f"expected one or more requests with different ids, got {[r.id for r in requests]}")
        with self._lock:
            if self.end_reason is not None:
                raise self.end_reason
            self._insert(Call(rpc_id, batch_id, entries, now, model, step_controller=step_controller))
        return tuple(entry.handle for entry in entries.values())

    def take_next(self, workers: Iterable[int], loaded: ModelConfig | None = None) -> Assignment | None:
        """Assign the next call to the least loaded of `workers`; None if there is no call or no room.

        Calls go in order: none is taken while the first one needs another model than `loaded` (see `model_to_load`).
        The requests' `output_ready` are marked running here; requests that were cancelled before are left out of the
        message. A worker without another call must start this one in time.
        """
        with self._lock:
            load = dict.fromkeys(workers, 0)
            for call in self._sent.values():
                if call.worker in load and call.state is not CallState.COMPUTED:
                    load[call.worker] += 1
            worker = min(load, key=load.__getitem__, default=None)
            if worker is None or load[worker] >= self._depth or not self._waiting or self._other_model(loaded):
                return None
            rpc_id, call = self._waiting.popitem(last=False)
            gone = [output_id for output_id, entry in call.entries.items() if not mark_running(entry.handle)]
            cancelled = tuple(self._pop_entry(call, output_id).handle for output_id in gone)
            if not call.entries:
                return Assignment(worker, None, cancelled)
            self._sent[rpc_id] = call
            call.worker = worker
            is_next = load[worker] == 0
            call.enter(CallState.SENT, self._clock(), self._output_timeout if is_next else None)
            return Assignment(worker, call.to_message(), cancelled)

    def model_to_load(self, loaded: ModelConfig | None) -> ModelConfig | None:
        """Return the model that the next call needs in place of `loaded`, once all sent calls are over; else None."""
        with self._lock:
            return None if self._sent else self._other_model(loaded)

    # ── progress of sent calls ──

    def mark_started(self, rpc_id: int, forward_timeout: float | None = None) -> tuple[str, ...]:
        """Mark a call running, with a limit of `forward_timeout` seconds; return the ids of its requests."""
        with self._lock:
            call = self._sent.get(rpc_id)
            if call is None:
                return ()
            call.forward_limit = forward_timeout
            call.enter(CallState.RUNNING, self._clock(), forward_timeout)
            for entry in call.entries.values():
                entry.attempts += 1
            return call.request_ids()

    def freeze_deadline(self, rpc_id: int) -> tuple[StepController, tuple[str, ...]] | None:
        """Stop a call's time limit while it waits for a step decision.

        Returns its step controller and the ids of its requests, or None if all its requests were cancelled.
        """
        with self._lock:
            call = self._sent.get(rpc_id)
            if call is None or call.step_controller is None or not call.entries:
                return None
            call.freeze_deadline(self._clock())
            return call.step_controller, call.request_ids()

    def resume_deadline(self, rpc_id: int) -> None:
        """Restart a call's time limit after a step decision."""
        with self._lock:
            if (call := self._sent.get(rpc_id)) is not None and call.state is CallState.RUNNING:
                call.resume_deadline(self._clock())

    def extend_deadline(self, output_id: str) -> Handle | None:
        """Restart the time limit of a request's forward, because frames of its video have arrived.

        Returns the request's handle, or None if it is not in the queue any more.
        """
        with self._lock:
            call = self._by_output.get(output_id)
            if call is None or call.state is CallState.WAITING:
                return None
            if call.state is CallState.RUNNING and call.forward_limit is not None:
                call.deadline = self._clock() + call.forward_limit  # it may have waited for slots to be released
            return call.entries[output_id].handle

    def mark_computed(self, rpc_id: int, forward: Interval) -> tuple[Handle, ...]:
        """Record a call's `forward` and start the wait for its outputs; return its unfinished handles.

        As long may the worker take to start its next call: outputs that wait for the host hold it up.
        """
        with self._lock:
            call = self._sent.get(rpc_id)
            if call is None:
                return ()
            call.enter(CallState.COMPUTED, self._clock(), self._output_timeout)
            self._limit_next(call.worker)
            for entry in call.entries.values():
                entry.forward = forward
            self._drop_if_over(call)
            return tuple(entry.handle for entry in call.entries.values())

    def shape(self, rpc_id: int) -> Shape | None:
        """Return the shape of a sent call's requests; None if there is none left."""
        with self._lock:
            call = self._sent.get(rpc_id)
            return next((entry.handle.planned.shape for entry in call.entries.values()), None) if call else None

    def request_ids(self, rpc_id: int) -> tuple[str, ...]:
        """Return the ids of a sent call's unfinished requests."""
        with self._lock:
            call = self._sent.get(rpc_id)
            return call.request_ids() if call is not None else ()

    def take_computed_ids(self, rpc_id: int) -> tuple[str, ...]:
        """Return the ids of a sent call's unfinished requests, unless its forward has been reported: it is now."""
        with self._lock:
            call = self._sent.get(rpc_id)
            return call.take_forward_ids() if call is not None else ()

    def take_forward_ids(self, output_id: str, has_failed: bool) -> tuple[str, ...]:
        """Return the ids of the unfinished requests of this output's call, unless its forward has been reported.

        The forward is over where one of its outputs is there; one that `has_failed` may have done so during the decode.
        """
        with self._lock:
            call = self._by_output.get(output_id)
            if call is None or call.state is CallState.WAITING or (has_failed and call.state is not CallState.COMPUTED):
                return ()
            return call.take_forward_ids()

    # ── removal of requests ──

    def remove_failed(self, rpc_id: int) -> tuple[RequestEntry, ...]:
        """Remove a call whose forward failed, and start the wait for the worker's next; return its requests."""
        with self._lock:
            call = self._sent.pop(rpc_id, None)
            if call is None:
                return ()
            self._limit_next(call.worker)
            return self._pop_entries(call)

    def remove_finished(self, output_id: str, forward_end: float) -> RequestEntry | None:
        """Remove a request whose output has arrived; None if it was removed before.

        If its ComputeDone is still to come, its forward is taken to be from Started to `forward_end`. The outputs that
        wait behind it, in the order of their forwards, have their full time from now.
        """
        with self._lock:
            call = self._by_output.get(output_id)
            if call is None or call.state is CallState.WAITING:
                return None
            entry = self._pop_entry(call, output_id)
            if call.state is not CallState.COMPUTED:
                entry.forward = Interval(min(call.since, forward_end), forward_end)
            self._drop_if_over(call)
            now = self._clock()
            for other in self._sent.values():
                if other.worker == call.worker and other.state in (CallState.COMPUTED, CallState.SENT):
                    other.restart_deadline(now, self._output_timeout)
            return entry

    def remove_request(self, output_id: str) -> Removed:
        """Remove one request, whatever the state of its call."""
        with self._lock:
            call = self._by_output.get(output_id)
            return self._remove([(call, output_id)] if call is not None else [])

    def remove_not_begun(self) -> Removed:
        """Remove all requests whose forward has not begun."""
        with self._lock:
            sent = [call for call in self._sent.values() if call.state is CallState.SENT]
            return self._remove_requests_of([*self._waiting.values(), *sent])

    def remove_stepped(self) -> Removed:
        """Remove all requests of paused or paced calls whose forward is not over."""
        with self._lock:
            calls = [
                call for call in (*self._waiting.values(), *self._sent.values()) if call.state is not CallState.COMPUTED
            ]
            return self._remove_requests_of(
                [c for c in calls if c.step_controller is not None and c.step_controller.waits]
            )

    def remove_model(self, model: ModelConfig) -> Removed:
        """Remove all waiting requests that need `model`."""
        with self._lock:
            return self._remove_requests_of([call for call in self._waiting.values() if call.model == model])

    def requeue(self, worker: int) -> tuple[RequestEntry, ...]:
        """Move the calls of a dead worker to the front, in their order; return the requests that are exhausted.

        A running call is split into one call per request, so that the request that kills workers fails alone.
        """
        with self._lock:
            exhausted: list[RequestEntry] = []
            for call in reversed([call for call in self._sent.values() if call.worker == worker]):
                del self._sent[call.rpc_id]
                was_running = call.state is CallState.RUNNING
                entries = dict(call.entries)
                self._pop_entries(call)
                for entry in entries.values():
                    entry.deaths += was_running or entry.is_late
                    entry.forward = None
                exhausted[:0] = [entry for entry in entries.values() if entry.exhausted]
                retried = {output_id: entry for output_id, entry in entries.items() if not entry.exhausted}
                for group in [{o: e} for o, e in reversed(retried.items())] if was_running else [retried]:
                    if group:
                        new_id, now = self._new_id(), self._clock()
                        retry = Call(
                            new_id, call.batch_id, group, now, call.model, step_controller=call.step_controller
                        )
                        self._insert(retry, front=True)
            return tuple(exhausted)

    def close(self, reason: OmniGenError) -> tuple[RequestEntry, ...]:
        """Remove all requests and refuse further calls with `reason`, or with that of the first close."""
        with self._lock:
            self.end_reason = self.end_reason or reason
            calls = [*self._sent.values(), *self._waiting.values()]
            self._sent.clear()
            self._waiting.clear()
            return tuple(entry for call in calls for entry in self._pop_entries(call))

    # ── deadlines and the log ──

    def next_deadline(self) -> float | None:
        """Return the earliest deadline, in seconds on the queue's clock."""
        with self._lock:
            return min((call.deadline for call in self._sent.values() if call.deadline is not None), default=None)

    def take_stuck_workers(self, now: float, holding: Collection[int] = ()) -> dict[int, CallState]:
        """Return the workers with a call past its deadline, once per call, and the state that the call did not leave.

        Outputs of the workers `holding` wait for slots that the parent reads: they are not late. From the end of that
        they have their full time.
        """
        with self._lock:
            stuck: dict[int, CallState] = {}
            for call in self._sent.values():
                if call.worker is None or not call.is_overdue(now):
                    continue
                if call.state is not CallState.RUNNING and (call.worker in holding or call.is_held):
                    call.is_held = call.worker in holding
                    timeout = self._output_timeout
                    call.deadline = now + (min(HELD_CHECK_S, timeout) if call.is_held else timeout)
                    continue
                call.deadline = None
                stuck.setdefault(call.worker, call.state)
                if call.state is CallState.COMPUTED:
                    for entry in call.entries.values():
                        entry.is_late = True
            return stuck

    def shift_deadlines(self, seconds: float) -> None:
        """Move every deadline: the time in which this process did not run is nobody's."""
        with self._lock:
            for call in self._sent.values():
                if call.deadline is not None:
                    call.deadline += seconds

    def describe(self) -> list[str]:
        """Return one line per call for the log."""
        with self._lock:
            now = self._clock()
            return [call.describe(now) for call in [*self._sent.values(), *self._waiting.values()]]

    # ── called with the lock held ──

    def _limit_next(self, worker: int | None) -> None:
        """Start the time in which `worker` must start the call that it was sent after the one that has ended."""
        for call in self._sent.values():
            if call.worker == worker and call.state is CallState.SENT:
                call.deadline = self._clock() + self._output_timeout
                return

    def _other_model(self, loaded: ModelConfig | None) -> ModelConfig | None:
        """Return the model that the next call needs, if it is not `loaded`."""
        model = next((call.model for call in self._waiting.values()), None)
        return None if model == loaded else model

    def _insert(self, call: Call, *, front: bool = False) -> None:
        self._waiting[call.rpc_id] = call
        if front:
            self._waiting.move_to_end(call.rpc_id, last=False)
        self._by_output.update(dict.fromkeys(call.entries, call))

    def _pop_entry(self, call: Call, output_id: str) -> RequestEntry:
        del self._by_output[output_id]
        return call.entries.pop(output_id)

    def _pop_entries(self, call: Call) -> tuple[RequestEntry, ...]:
        return tuple(self._pop_entry(call, output_id) for output_id in list(call.entries))

    def _remove_requests_of(self, calls: Iterable[Call]) -> Removed:
        return self._remove([(call, output_id) for call in calls for output_id in call.entries])

    def _remove(self, requests: Sequence[tuple[Call, str]]) -> Removed:
        entries = tuple(self._pop_entry(call, output_id) for call, output_id in requests)
        abandoned: dict[int, int] = {}
        for call, _ in requests:
            if call.entries:
                continue
            if call.worker is None:
                self._waiting.pop(call.rpc_id, None)
            elif call.state is not CallState.COMPUTED:
                abandoned[call.rpc_id] = call.worker
            self._drop_if_over(call)
        return Removed(entries, tuple((worker, rpc_id) for rpc_id, worker in abandoned.items()))

    def _drop_if_over(self, call: Call) -> None:
        """Drop a sent call once its forward is over and none of its outputs is awaited."""
        if not call.entries and call.state is CallState.COMPUTED:
            self._sent.pop(call.rpc_id, None)
