"""The call queue under random orders of events, checked against a model of the rules:

each request ends exactly once.
"""

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from omni_cli.errors import EngineError
from omni_cli.executor.call import MAX_ATTEMPTS, MAX_RUNNING_DEATHS, RequestEntry
from omni_cli.executor.call_queue import CallQueue
from omni_cli.executor.protocol import Handle
from omni_cli.request import Interval
from omni_cli.transport.messages import ExecuteModel
from tests.executor.fake_worker import FORWARD
from tests.factories import planned_call

WORKERS = (0, 1)
DEPTH = 2
OUTPUT_TIMEOUT = 100.0
FORWARD_TIMEOUT = 50.0
BY_HOLDER = "cancelled by its holder"


def ids(entries: tuple[RequestEntry, ...]) -> list[str]:
    return [entry.handle.planned.id for entry in entries]


class CallQueueMachine(RuleBasedStateMachine):
    """Random events of two workers, in every order that the protocol allows and in some that it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.queue = CallQueue(DEPTH, OUTPUT_TIMEOUT, count(1).__next__, lambda: self.now)
        self.names = count()
        self.handles: dict[str, Handle] = {}
        self.ended: dict[str, str] = {}  # request id -> how it ended
        self.waiting: list[list[str]] = []
        self.inbox: dict[int, list[ExecuteModel]] = {worker: [] for worker in WORKERS}  # the running call first
        self.running: dict[int, int] = {}
        self.computed: list[tuple[int, ExecuteModel]] = []
        self.deaths: dict[str, int] = {}
        self.attempts: dict[str, int] = {}
        self.due: dict[int, float] = {}
        self.late: set[str] = set()

    def end(self, entries: tuple[RequestEntry, ...] | list[RequestEntry], how: str) -> None:
        for entry in entries:
            id_ = entry.handle.planned.id
            assert id_ not in self.ended, f"{id_} ends twice: {self.ended[id_]}, then {how}"
            self.ended[id_] = how

    def unfinished(self, message: ExecuteModel) -> list[str]:
        return [request.id for request in message.requests if request.id not in self.ended]

    @rule(size=st.integers(1, 3))
    def submit(self, size: int) -> None:
        names = [str(next(self.names)) for _ in range(size)]
        self.handles.update({handle.planned.id: handle for handle in self.queue.add(planned_call(*names))})
        self.waiting.append(names)

    @rule(workers=st.sets(st.sampled_from(WORKERS)))
    def dispatch(self, workers: set[int]) -> None:
        assignment = self.queue.take_next(sorted(workers))
        with_room = [worker for worker in workers if len(self.inbox[worker]) < DEPTH]
        expected = [names for names in ([n for n in names if n not in self.ended] for names in self.waiting) if names]
        if assignment is None:
            assert not with_room or not expected
            return
        assert assignment.worker in with_room
        assert all(self.ended[handle.planned.id] == BY_HOLDER for handle in assignment.cancelled)
        if assignment.message is None:
            assert assignment.cancelled
            return
        names = expected.pop(0)
        self.waiting = expected
        assert [request.id for request in assignment.message.requests] == names
        assert all(self.handles[name].output_ready.running() for name in names)
        self.inbox[assignment.worker].append(assignment.message)

    @precondition(lambda self: any(self.inbox.values()))
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from([w for w in WORKERS if self.inbox[w]]))
        message = self.inbox[worker][0]
        if self.running.get(worker) == message.rpc_id:
            return
        self.running[worker] = message.rpc_id
        assert list(self.queue.mark_started(message.rpc_id, FORWARD_TIMEOUT)) == self.unfinished(message)
        for id_ in self.unfinished(message):
            self.attempts[id_] = self.attempts.get(id_, 0) + 1

    @precondition(lambda self: self.running)
    @rule(data=st.data(), failure=st.booleans())
    def compute(self, data: st.DataObject, failure: bool) -> None:
        worker = data.draw(st.sampled_from(sorted(self.running)))
        message = self.inbox[worker].pop(0)
        assert self.running.pop(worker) == message.rpc_id
        if failure:
            expected = self.unfinished(message)
            entries = self.queue.remove_failed(message.rpc_id)
            assert ids(entries) == expected
            self.end(entries, "failed")
            return
        handles = self.queue.mark_computed(message.rpc_id, FORWARD)
        assert [handle.planned.id for handle in handles] == self.unfinished(message)
        self.computed.append((worker, message))
        self.due[message.rpc_id] = self.now + OUTPUT_TIMEOUT

    @precondition(lambda self: self.computed or self.running)
    @rule(data=st.data())
    def output(self, data: st.DataObject) -> None:
        sent = [message for inbox in self.inbox.values() for message in inbox]
        running = [message for message in sent if message.rpc_id in self.running.values()]
        message = data.draw(st.sampled_from([message for _, message in self.computed] + running))
        id_ = data.draw(st.sampled_from([request.id for request in message.requests]))
        entry = self.queue.remove_finished(f"{message.batch_id}/{id_}", self.now)
        if id_ in self.ended:
            assert entry is None
        else:
            (worker,) = {
                *(index for index, other in self.computed if other is message),
                *(index for index, inbox in self.inbox.items() if message in inbox),
            }
            for index, other in self.computed:
                if index == worker:
                    self.due[other.rpc_id] = self.now + OUTPUT_TIMEOUT
            assert entry is not None
            assert isinstance(entry.forward, Interval)
            assert entry.attempts == self.attempts[id_]
            self.end([entry], "done")

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), by_holder=st.booleans())
    def cancel(self, data: st.DataObject, by_holder: bool) -> None:
        id_ = data.draw(st.sampled_from(sorted(self.handles)))
        handle = self.handles[id_]
        if by_holder:
            if handle.output_ready.cancel() and id_ not in self.ended:
                self.ended[id_] = BY_HOLDER
            return
        ended = self.ended.get(id_)
        removed = self.queue.remove_request(handle.output_id)
        if ended == BY_HOLDER:
            return
        self.end(removed.entries, "cancelled")
        assert ids(removed.entries) == ([] if ended else [id_])
        for worker, rpc_id in removed.abandoned_calls:
            (message,) = [message for message in self.inbox[worker] if message.rpc_id == rpc_id]
            assert self.unfinished(message) == []

    @rule()
    def cancel_not_begun(self) -> None:
        removed = self.queue.remove_not_begun()
        for entry in removed.entries:
            if self.ended.get(entry.handle.planned.id) != BY_HOLDER:
                self.end([entry], "cancelled")
        self.waiting = []
        for worker, inbox in self.inbox.items():
            for message in inbox:
                if message.rpc_id != self.running.get(worker):
                    assert self.unfinished(message) == []

    @rule(worker=st.sampled_from(WORKERS))
    def die(self, worker: int) -> None:
        self.die_now(worker)

    def die_now(self, worker: int) -> None:
        exhausted = self.queue.requeue(worker)
        requeued: list[list[str]] = []
        expected: list[str] = []
        # Computed calls were sent before those in the inbox.
        of_worker = [message for index, message in self.computed if index == worker]
        for message in of_worker + self.inbox[worker]:
            names = self.unfinished(message)
            was_running = message.rpc_id == self.running.get(worker)
            for name in names:
                self.deaths[name] = self.deaths.get(name, 0) + (was_running or name in self.late)
            failed = [
                name
                for name in names
                if self.deaths[name] >= MAX_RUNNING_DEATHS or self.attempts.get(name, 0) >= MAX_ATTEMPTS
            ]
            expected += failed
            retried = [name for name in names if name not in failed]
            requeued += [[name] for name in retried] if was_running else [retried]
        assert ids(exhausted) == expected
        self.end(exhausted, "worker died")
        self.waiting = [names for names in requeued if names] + self.waiting
        self.computed = [(index, message) for index, message in self.computed if index != worker]
        self.inbox[worker] = []
        self.running.pop(worker, None)

    @rule(seconds=st.sampled_from([1.0, FORWARD_TIMEOUT, OUTPUT_TIMEOUT]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        stuck = self.queue.take_stuck_workers(self.now)
        late = [(w, message) for w, message in self.computed if self.unfinished(message)]
        late = [(w, message) for w, message in late if self.due[message.rpc_id] <= self.now]
        self.late |= {name for _, message in late for name in self.unfinished(message)}
        assert {worker for worker, _ in late} <= set(stuck)
        assert self.queue.take_stuck_workers(self.now) == {}
        for worker in stuck:
            assert self.inbox[worker] or worker in {index for index, _ in late}
            self.die_now(worker)
        deadline = self.queue.next_deadline()
        assert deadline is None or deadline > self.now

    @invariant()
    def nothing_is_lost_and_nothing_is_left_over(self) -> None:
        lines = "\n".join(self.queue.describe())
        for id_, handle in self.handles.items():
            if id_ not in self.ended:
                assert lines.count(handle.output_id) == 1
        # A sent call stays until its forward is over, even if all its requests have ended.
        assert lines.count("its end") <= sum(map(len, self.inbox.values()))
        computed = [message for _, message in self.computed if self.unfinished(message)]
        assert lines.count(": computed for") == len(computed)

    def teardown(self) -> None:
        for entry in self.queue.close(EngineError("over")):
            if self.ended.get(entry.handle.planned.id) != BY_HOLDER:
                self.end([entry], "closed")
        assert set(self.ended) == set(self.handles)
        assert self.queue.describe() == []


CallQueueMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestCallQueue = CallQueueMachine.TestCase
