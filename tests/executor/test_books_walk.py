"""The books in random orders of events, against a model that knows only the rules: each request is settled once."""

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from omni_cli.errors import EngineError
from omni_cli.executor.books import Books
from omni_cli.executor.call import MAX_ATTEMPTS, MAX_RUNNING_DEATHS, Entry
from omni_cli.executor.protocol import Handle
from omni_cli.request import Interval
from omni_cli.transport.messages import ExecuteModel
from tests.executor.puppet import FORWARD, planned

WORKERS = (0, 1)
DEPTH = 2
OUTPUT_TIMEOUT = 100.0
FORWARD_TIMEOUT = 50.0
BY_ITS_HOLDER = "cancelled by its holder"


def ids(entries: tuple[Entry, ...]) -> list[str]:
    return [entry.handle.planned.id for entry in entries]


class Walk(RuleBasedStateMachine):
    """Random events over two workers that answer in every order the protocol allows, and in some that it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.books = Books(DEPTH, count(1).__next__, lambda: self.now)
        self.names = count()
        self.handles: dict[str, Handle] = {}
        self.settled: dict[str, str] = {}
        self.queue: list[list[str]] = []
        self.held: dict[int, list[ExecuteModel]] = {worker: [] for worker in WORKERS}
        self.running: dict[int, int] = {}
        self.computed: list[tuple[int, ExecuteModel]] = []
        self.deaths: dict[str, int] = {}
        self.begun: dict[str, int] = {}

    def settle(self, entries: tuple[Entry, ...] | list[Entry], how: str) -> None:
        for entry in entries:
            id_ = entry.handle.planned.id
            assert id_ not in self.settled, f"{id_} is settled twice: {self.settled[id_]}, then {how}"
            self.settled[id_] = how

    def open(self, message: ExecuteModel) -> list[str]:
        return [request.id for request in message.requests if request.id not in self.settled]

    @rule(size=st.integers(1, 3))
    def submit(self, size: int) -> None:
        names = [str(next(self.names)) for _ in range(size)]
        self.handles.update({handle.planned.id: handle for handle in self.books.add(planned(*names))})
        self.queue.append(names)

    @rule(workers=st.sets(st.sampled_from(WORKERS)))
    def dispatch(self, workers: set[int]) -> None:
        sending = self.books.take_next(sorted(workers))
        room = [worker for worker in workers if len(self.held[worker]) < DEPTH]
        wanted = [names for names in ([n for n in names if n not in self.settled] for names in self.queue) if names]
        if sending is None:
            assert not room or not wanted
            return
        assert sending.worker in room
        assert all(self.settled[handle.planned.id] == BY_ITS_HOLDER for handle in sending.cancelled)
        if sending.message is None:
            assert sending.cancelled
            return
        names = wanted.pop(0)
        self.queue = wanted
        assert [request.id for request in sending.message.requests] == names
        assert all(self.handles[name].output_ready.running() for name in names)
        self.held[sending.worker].append(sending.message)

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from([w for w in WORKERS if self.held[w]]))
        message = self.held[worker][0]
        if self.running.get(worker) == message.rpc_id:
            return
        self.running[worker] = message.rpc_id
        assert list(self.books.started(message.rpc_id, FORWARD_TIMEOUT)) == self.open(message)
        for id_ in self.open(message):
            self.begun[id_] = self.begun.get(id_, 0) + 1

    @precondition(lambda self: self.running)
    @rule(data=st.data(), failure=st.booleans())
    def compute(self, data: st.DataObject, failure: bool) -> None:
        worker = data.draw(st.sampled_from(sorted(self.running)))
        message = self.held[worker].pop(0)
        assert self.running.pop(worker) == message.rpc_id
        if failure:
            wanted = self.open(message)
            entries = self.books.failed(message.rpc_id)
            assert ids(entries) == wanted
            self.settle(entries, "failed")
            return
        handles = self.books.computed(message.rpc_id, FORWARD, OUTPUT_TIMEOUT)
        assert [handle.planned.id for handle in handles] == self.open(message)
        self.computed.append((worker, message))

    @precondition(lambda self: self.computed or self.running)
    @rule(data=st.data())
    def output(self, data: st.DataObject) -> None:
        running = [
            message for held in self.held.values() for message in held if message.rpc_id in self.running.values()
        ]
        message = data.draw(st.sampled_from([message for _, message in self.computed] + running))
        id_ = data.draw(st.sampled_from([request.id for request in message.requests]))
        entry = self.books.finish(f"{message.batch_id}/{id_}", self.now)
        if id_ in self.settled:
            assert entry is None
        else:
            assert entry is not None
            assert isinstance(entry.forward, Interval)
            assert entry.attempts == self.begun[id_]
            self.settle([entry], "done")

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), by_its_holder=st.booleans())
    def cancel(self, data: st.DataObject, by_its_holder: bool) -> None:
        id_ = data.draw(st.sampled_from(sorted(self.handles)))
        handle = self.handles[id_]
        if by_its_holder:
            if handle.output_ready.cancel() and id_ not in self.settled:
                self.settled[id_] = BY_ITS_HOLDER
            return
        known = self.settled.get(id_)
        given_up = self.books.give_up(handle.output_id)
        if known == BY_ITS_HOLDER:
            return
        self.settle(given_up.entries, "cancelled")
        assert ids(given_up.entries) == ([] if known else [id_])
        for worker, rpc_id in given_up.orphans:
            (message,) = [message for message in self.held[worker] if message.rpc_id == rpc_id]
            assert self.open(message) == []

    @rule()
    def cancel_waiting(self) -> None:
        given_up = self.books.give_up_not_begun()
        for entry in given_up.entries:
            if self.settled.get(entry.handle.planned.id) != BY_ITS_HOLDER:
                self.settle([entry], "cancelled")
        self.queue = []
        for worker, held in self.held.items():
            for message in held:
                if message.rpc_id != self.running.get(worker):
                    assert self.open(message) == []

    @rule(worker=st.sampled_from(WORKERS))
    def die(self, worker: int) -> None:
        hopeless = self.books.worker_died(worker)
        back: list[list[str]] = []
        doomed: list[str] = []
        # Sent earlier comes first: what is computed was sent before what is held.
        of_worker = [message for where, message in self.computed if where == worker]
        for message in of_worker + self.held[worker]:
            names = self.open(message)
            was_running = message.rpc_id == self.running.get(worker)
            for name in names:
                self.deaths[name] = self.deaths.get(name, 0) + was_running
            bad = [n for n in names if self.deaths[n] >= MAX_RUNNING_DEATHS or self.begun.get(n, 0) >= MAX_ATTEMPTS]
            doomed += bad
            good = [name for name in names if name not in bad]
            back += [[name] for name in good] if was_running else [good]
        assert ids(hopeless) == doomed
        self.settle(hopeless, "worker died")
        self.queue = [names for names in back if names] + self.queue
        self.computed = [(where, message) for where, message in self.computed if where != worker]
        self.held[worker] = []
        self.running.pop(worker, None)

    @rule(seconds=st.sampled_from([1.0, FORWARD_TIMEOUT, OUTPUT_TIMEOUT]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for entry in self.books.take_late(self.now):
            assert any(entry.handle.planned in message.requests for _, message in self.computed)
            self.settle([entry], "late")
        stuck = self.books.take_stuck(self.now)
        assert set(stuck) <= set(self.running)
        assert self.books.take_stuck(self.now) == ()
        deadline = self.books.next_deadline()
        assert deadline is None or deadline > self.now

    @invariant()
    def nothing_is_lost_and_nothing_is_left(self) -> None:
        in_books = "\n".join(self.books.lines())
        unsettled = [id_ for id_ in self.handles if id_ not in self.settled]
        for id_ in unsettled:
            assert in_books.count(self.handles[id_].output_id) == 1
        # What was sent and is not over stays, though nobody waits for it; what is over does not.
        assert in_books.count("its end") <= sum(map(len, self.held.values()))
        computed = [message for _, message in self.computed if self.open(message)]
        assert in_books.count(": computed for") == len(computed)

    def teardown(self) -> None:
        left = self.books.close(EngineError("over"))
        for entry in left:
            if self.settled.get(entry.handle.planned.id) != BY_ITS_HOLDER:
                self.settle([entry], "closed")
        assert set(self.settled) == set(self.handles)
        assert self.books.lines() == []


Walk.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestWalk = Walk.TestCase
