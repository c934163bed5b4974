"""The executor's books: every request from submit to its last future, under one lock.

    waiting ──take_next──> sent ──Started──> running ──ComputeDone──> computed ──OutputReady──> (gone)
       ^                    │                   │                        │
       └── worker died: requeued in front ──────┴────────────────────────┘   (too often: given up)

A call is in one of two containers: `_waiting`, in the order in which it will be sent, or `_sent`, in the order in which it
was. Every call that was sent is answered by one ComputeDone or by the worker's death; it stays in the books until then even
if nobody waits for its requests any more, so that a worker's load and a stuck forward are always known.

Nothing here sends, waits or settles a future: methods change state under the lock and return plain snapshots, so that
every order of events can be tested without a process. Whoever takes an entry out settles it.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from omni_cli.config import ModelConfig
from omni_cli.errors import OmniGenError
from omni_cli.executor.call import Call, Entry, GivenUp, Sending, State, message_of
from omni_cli.executor.protocol import Handle
from omni_cli.executor.settle import claim
from omni_cli.executor.steering import Steering
from omni_cli.request import Interval, PlannedRequest


class Books:
    """All calls, waiting or sent."""

    def __init__(self, depth: int, new_id: Callable[[], int], clock: Callable[[], float] = monotonic) -> None:
        """`depth`: calls a worker may hold whose forward is not over - the running one and those in its inbox."""
        self._depth = depth
        self._new_id = new_id
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: OrderedDict[int, Call] = OrderedDict()
        self._sent: dict[int, Call] = {}
        self._by_output: dict[str, Call] = {}
        self.ended: OmniGenError | None = None

    def add(
        self, requests: Sequence[PlannedRequest], steering: Steering | None = None, model: ModelConfig | None = None
    ) -> tuple[Handle, ...]:
        """A new call, waiting, that needs `model`, to be led by `steering` if there is one. Output ids are `{batch_id}/{request_id}`.

        Raises the reason once the books are closed.
        """
        rpc_id, now = self._new_id(), self._clock()
        batch_id = f"batch-{rpc_id}"
        entries = {f"{batch_id}/{r.id}": Entry(Handle(r, f"{batch_id}/{r.id}"), now) for r in requests}
        if not requests or len(entries) < len(requests):
            raise ValueError(f"a call takes requests with different ids, not {[r.id for r in requests]}")
        with self._lock:
            if self.ended is not None:
                raise self.ended
            self._queue(Call(rpc_id, batch_id, entries, now, model, steering=steering))
        return tuple(entry.handle for entry in entries.values())

    def take_next(self, workers: Iterable[int], loaded: ModelConfig | None = None) -> Sending | None:
        """The next call for the least loaded of `workers` that has room; None if there is no call or no room.

        Calls go in order: none is taken while the first one needs another model than `loaded` (see `wanted`).
        A request's future leaves the cancellable state here; requests that were cancelled before are left out.
        """
        with self._lock:
            load = dict.fromkeys(workers, 0)
            for call in self._sent.values():
                if call.worker in load and call.state is not State.COMPUTED:
                    load[call.worker] += 1
            worker = min(load, key=load.__getitem__, default=None)
            if worker is None or load[worker] >= self._depth or not self._waiting or self._other_model(loaded):
                return None
            rpc_id, call = self._waiting.popitem(last=False)
            gone = [output_id for output_id, entry in call.entries.items() if not claim(entry.handle)]
            cancelled = tuple(self._take_out(call, output_id).handle for output_id in gone)
            if not call.entries:
                return Sending(worker, None, cancelled)
            self._sent[rpc_id] = call
            call.worker = worker
            call.enter(State.SENT, self._clock())
            return Sending(worker, message_of(call), cancelled)

    def wanted(self, loaded: ModelConfig | None) -> ModelConfig | None:
        """The model that the next call needs in place of `loaded`, once nothing of what was sent is left; else None."""
        with self._lock:
            return None if self._sent else self._other_model(loaded)

    def started(self, rpc_id: int, forward_timeout: float | None = None) -> tuple[str, ...]:
        """The worker's main thread took the call: the ids of its requests."""
        with self._lock:
            call = self._sent.get(rpc_id)
            if call is None:
                return ()
            call.enter(State.RUNNING, self._clock(), forward_timeout)
            for entry in call.entries.values():
                entry.attempts += 1
            return call.ids()

    def hold(self, rpc_id: int) -> tuple[Steering, tuple[str, ...]] | None:
        """The running call waits for a decision, its time stands still: who decides, and its ids. None if nobody wants it."""
        with self._lock:
            call = self._sent.get(rpc_id)
            if call is None or call.steering is None or not call.entries:
                return None
            call.hold(self._clock())
            return call.steering, call.ids()

    def go_on(self, rpc_id: int) -> None:
        """It was decided."""
        with self._lock:
            if (call := self._sent.get(rpc_id)) is not None and call.state is State.RUNNING:
                call.go_on(self._clock())

    def give_up_held(self) -> GivenUp:
        """Every request whose call goes on only when somebody lets it leaves the books."""
        with self._lock:
            calls = [*self._waiting.values(), *self._sent.values()]
            held = [call for call in calls if call.steering is not None and call.steering.waits]
            return self._give_up(
                [(c, output_id) for c in held if c.state is not State.COMPUTED for output_id in c.entries]
            )

    def ids(self, rpc_id: int) -> tuple[str, ...]:
        """The ids of a sent call's unfinished requests."""
        with self._lock:
            call = self._sent.get(rpc_id)
            return call.ids() if call is not None else ()

    def progressed(self, output_id: str, forward_timeout: float | None = None) -> Handle | None:
        """Frames of a request's video have come, so its forward is not stuck: its handle, None if it has left the books."""
        with self._lock:
            call = self._by_output.get(output_id)
            if call is None or call.state is State.WAITING:
                return None
            if call.state is State.RUNNING and forward_timeout is not None:
                call.deadline = self._clock() + forward_timeout  # it may have waited for those who take the frames
            return call.entries[output_id].handle

    def computed(self, rpc_id: int, forward: Interval, output_timeout: float) -> tuple[Handle, ...]:
        """The forward is over and the clock of the output wait starts: the handles of its unfinished requests."""
        with self._lock:
            call = self._sent.get(rpc_id)
            if call is None:
                return ()
            call.enter(State.COMPUTED, self._clock(), output_timeout)
            for entry in call.entries.values():
                entry.forward = forward
            self._close_if_over(call)
            return tuple(entry.handle for entry in call.entries.values())

    def failed(self, rpc_id: int) -> tuple[Entry, ...]:
        """The forward failed: the whole call leaves the books."""
        with self._lock:
            call = self._sent.pop(rpc_id, None)
            return self._empty(call) if call is not None else ()

    def finish(self, output_id: str, end: float) -> Entry | None:
        """The request's output, packed from the time `end` on, arrived: it leaves the books. None if it already has.

        An output that overtakes its call's ComputeDone tells of the forward itself: from Started until `end`.
        """
        with self._lock:
            call = self._by_output.get(output_id)
            if call is None or call.state is State.WAITING:
                return None
            entry = self._take_out(call, output_id)
            if call.state is not State.COMPUTED:
                entry.forward = Interval(min(call.since, end), end)
            self._close_if_over(call)
            return entry

    def give_up(self, output_id: str) -> GivenUp:
        """The request leaves the books, wherever it is."""
        with self._lock:
            call = self._by_output.get(output_id)
            return self._give_up([(call, output_id)] if call is not None else [])

    def give_up_not_begun(self) -> GivenUp:
        """Every request whose forward has not begun leaves the books."""
        with self._lock:
            calls = [*self._waiting.values(), *(c for c in self._sent.values() if c.state is State.SENT)]
            return self._give_up([(call, output_id) for call in calls for output_id in call.entries])

    def give_up_model(self, model: ModelConfig) -> GivenUp:
        """Every waiting request that needs `model` leaves the books."""
        with self._lock:
            calls = [call for call in self._waiting.values() if call.model == model]
            return self._give_up([(call, output_id) for call in calls for output_id in call.entries])

    def worker_died(self, worker: int) -> tuple[Entry, ...]:
        """Requeue what the worker held, in order and in front; return the requests that are hopeless by now.

        A call that was running is split, so that one poisonous request does not take its batch along a second time.
        """
        with self._lock:
            held = [call for call in self._sent.values() if call.worker == worker]
            hopeless: list[Entry] = []
            for call in reversed(held):
                del self._sent[call.rpc_id]
                was_running = call.state is State.RUNNING
                entries = dict(call.entries)
                self._empty(call)
                for entry in entries.values():
                    entry.deaths += was_running
                    entry.forward = None
                hopeless[:0] = [entry for entry in entries.values() if entry.hopeless]
                alive = {output_id: entry for output_id, entry in entries.items() if not entry.hopeless}
                for group in [{o: e} for o, e in reversed(alive.items())] if was_running else [alive]:
                    if group:
                        again = Call(
                            self._new_id(), call.batch_id, group, self._clock(), call.model, steering=call.steering
                        )
                        self._queue(again, front=True)
            return tuple(hopeless)

    def take_stuck(self, now: float) -> tuple[int, ...]:
        """Workers whose running call is past its deadline; each call is told of once."""
        with self._lock:
            stuck = [call for call in self._sent.values() if call.state is State.RUNNING and call.is_due(now)]
            for call in stuck:
                call.deadline = None
            return tuple(call.worker for call in stuck if call.worker is not None)

    def take_late(self, now: float) -> tuple[Entry, ...]:
        """Requests whose output has not come in time leave the books."""
        with self._lock:
            late = [call for call in self._sent.values() if call.state is State.COMPUTED and call.is_due(now)]
            for call in late:
                del self._sent[call.rpc_id]
            return tuple(entry for call in late for entry in self._empty(call))

    def next_deadline(self) -> float | None:
        """The earliest deadline, on the books' clock."""
        with self._lock:
            return min((call.deadline for call in self._sent.values() if call.deadline is not None), default=None)

    def close(self, reason: OmniGenError) -> tuple[Entry, ...]:
        """Empty the books for good; return what was in them. The first reason stands."""
        with self._lock:
            self.ended = self.ended or reason
            calls = [*self._sent.values(), *self._waiting.values()]
            self._sent.clear()
            self._waiting.clear()
            return tuple(entry for call in calls for entry in self._empty(call))

    def lines(self) -> list[str]:
        """One line per call, for the log: enough to tell whether the worker, the pump or the waiter stalled."""
        with self._lock:
            now = self._clock()
            return [call.line(now) for call in [*self._sent.values(), *self._waiting.values()]]

    # ── under the lock ──

    def _other_model(self, loaded: ModelConfig | None) -> ModelConfig | None:
        """What the next call needs, if that is not `loaded`."""
        model = next((call.model for call in self._waiting.values()), None)
        return None if model == loaded else model

    def _queue(self, call: Call, *, front: bool = False) -> None:
        self._waiting[call.rpc_id] = call
        if front:
            self._waiting.move_to_end(call.rpc_id, last=False)
        self._by_output.update(dict.fromkeys(call.entries, call))

    def _take_out(self, call: Call, output_id: str) -> Entry:
        del self._by_output[output_id]
        return call.entries.pop(output_id)

    def _empty(self, call: Call) -> tuple[Entry, ...]:
        return tuple(self._take_out(call, output_id) for output_id in list(call.entries))

    def _give_up(self, places: Sequence[tuple[Call, str]]) -> GivenUp:
        entries = tuple(self._take_out(call, output_id) for call, output_id in places)
        orphans: dict[int, int] = {}
        for call, _ in places:
            if call.entries:
                continue
            if call.worker is None:
                self._waiting.pop(call.rpc_id, None)
            elif call.state is not State.COMPUTED:
                orphans[call.rpc_id] = call.worker
            self._close_if_over(call)
        return GivenUp(entries, tuple((worker, rpc_id) for rpc_id, worker in orphans.items()))

    def _close_if_over(self, call: Call) -> None:
        """A sent call is over once its forward is and nobody waits for an output of it."""
        if not call.entries and call.state is State.COMPUTED:
            self._sent.pop(call.rpc_id, None)
