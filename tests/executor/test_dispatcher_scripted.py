"""The dispatcher against answers that arrive while its call is still being sent, which no process can be made to do."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import count
from typing import Any, cast

import pytest

from omni_cli.child_process import ChildProcess
from omni_cli.config import EngineConfig
from omni_cli.errors import EngineError, RequestCancelled
from omni_cli.executor.dispatcher import Dispatcher
from omni_cli.executor.protocol import Handle
from omni_cli.executor.pump import Handler
from omni_cli.executor.worker_handle import WorkerHandle
from omni_cli.executor.worker_pool import WorkerPool
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel
from tests.executor.fake_worker import D2H, FORWARD, HEADER, PIXELS
from tests.factories import planned_call


class ScriptedPool(WorkerPool):
    """A pool of one ready worker without a process. `on_send` answers for it, on the sender's thread."""

    def __init__(self) -> None:
        ids = count(1).__next__
        super().__init__(EngineConfig(), cast(Handler, None), ids, None)
        self.workers.append(WorkerHandle(0, cast(ChildProcess, None), cast(Channel, None), 0.0, ready=True))
        self.sent: list[m.ToWorker] = []
        self.on_send: Callable[[m.ToWorker], None] = lambda message: None
        self.dispatcher = Dispatcher(EngineConfig(), self, ids, lambda event: None, lambda *_: None)

    def send(self, worker: int, message: m.ToWorker) -> None:
        self.sent.append(message)
        self.on_send(message)

    def start(self, call: m.ExecuteModel) -> None:
        ids = tuple(request.id for request in call.requests)
        self.dispatcher.on_started(self.workers[0], m.Started(rpc_id=call.rpc_id, request_ids=ids))

    def compute(self, call: m.ExecuteModel) -> None:
        ids = tuple(f"{call.batch_id}/{request.id}" for request in call.requests)
        self.dispatcher.on_compute_done(
            self.workers[0], m.ComputeDone(rpc_id=call.rpc_id, async_output_ids=ids, forward=FORWARD)
        )

    def output(self, call: m.ExecuteModel, id_: str) -> bool:
        message = m.OutputReady(async_output_id=f"{call.batch_id}/{id_}", header=HEADER, inline=PIXELS, d2h=D2H)
        return self.dispatcher.on_output_ready(self.workers[0], message, [])


@pytest.fixture
def pool(_no_leaks: None) -> Iterator[ScriptedPool]:
    pool = ScriptedPool()
    yield pool
    pool._pump.stop()


def are_done(handle: Handle) -> tuple[bool, bool]:
    return handle.compute_done.done(), handle.output_ready.done()


def test_batch_answered_before_submit_returns_is_done_when_it_does(pool: ScriptedPool) -> None:
    def answer(message: m.ToWorker) -> None:
        assert isinstance(message, m.ExecuteModel)
        pool.start(message)
        pool.compute(message)
        for request in message.requests:
            assert pool.output(message, request.id)

    pool.on_send = answer
    handles = pool.dispatcher.submit(planned_call("a", "b"))
    for handle in handles:
        assert handle.compute_done.result(0) == FORWARD
        assert bytes(handle.output_ready.result(0).buffer) == PIXELS
    assert pool.dispatcher.queue.describe() == []


def test_outputs_and_compute_done_before_submit_returns(pool: ScriptedPool) -> None:
    def answer(message: m.ToWorker) -> None:
        assert isinstance(message, m.ExecuteModel)
        pool.start(message)
        assert pool.output(message, "b")
        assert pool.output(message, "a")
        pool.compute(message)

    pool.on_send = answer
    handles = pool.dispatcher.submit(planned_call("a", "b"))
    assert [are_done(handle) for handle in handles] == [(True, True)] * 2
    assert handles[0].compute_done.result(0).end == D2H.start
    assert pool.dispatcher.queue.describe() == []


def test_cancel_while_the_call_is_being_sent_follows_it_and_its_output_is_released(pool: ScriptedPool) -> None:
    sent_calls: list[m.ExecuteModel] = []

    def answer(message: m.ToWorker) -> None:
        if isinstance(message, m.ExecuteModel):
            sent_calls.append(message)
            pool.start(message)
            pool.dispatcher.cancel()  # no request is waiting
            for entry_id in (f"{message.batch_id}/{request.id}" for request in message.requests):
                pool.dispatcher.cancel(Handle(planned_call("x")[0], entry_id))

    pool.on_send = answer
    handles = pool.dispatcher.submit(planned_call("a", "b"))
    for handle in handles:
        assert isinstance(handle.output_ready.exception(0), RequestCancelled)
        assert isinstance(handle.compute_done.exception(0), RequestCancelled)
    assert [type(message) for message in pool.sent] == [m.ExecuteModel, m.Cancel]
    pool.compute(sent_calls[0])
    assert not pool.output(sent_calls[0], "a"), "its memory goes back at once"
    assert pool.dispatcher.queue.describe() == []


def test_future_cancelled_by_its_holder_is_left_out_of_the_next_call(pool: ScriptedPool) -> None:
    first, second, third = (pool.dispatcher.submit(planned_call(id_))[0] for id_ in "abc")
    assert third.output_ready.cancel()
    assert not second.output_ready.cancel(), "it has been sent"
    call = pool.sent[0]
    assert isinstance(call, m.ExecuteModel)
    pool.start(call)
    pool.compute(call)
    assert len(pool.sent) == 2, "the third was the only one that could have followed"
    assert third.compute_done.cancelled()
    assert first.compute_done.result(0) == FORWARD


def test_close_fails_futures_in_every_state(pool: ScriptedPool) -> None:
    computed, running, inbox, waiting = (pool.dispatcher.submit(planned_call(id_))[0] for id_ in "abcd")
    call = pool.sent[0]
    assert isinstance(call, m.ExecuteModel)
    pool.start(call)
    pool.compute(call)
    second = pool.sent[1]
    assert isinstance(second, m.ExecuteModel)
    pool.start(second)
    pool.dispatcher.close(EngineError("over"))
    futures: list[Future[Any]] = [handle.output_ready for handle in (computed, running, inbox, waiting)]
    futures += [handle.compute_done for handle in (running, inbox, waiting)]
    assert [str(future.exception(0)) for future in futures] == ["over"] * 7
    assert computed.compute_done.result(0) == FORWARD
    assert not pool.output(second, "b"), "what comes after the end is dropped"
