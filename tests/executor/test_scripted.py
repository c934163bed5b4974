"""Answers that come at moments no process could be made to hit: a crew that speaks as the worker while it is being sent to."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import count
from typing import Any, cast

import pytest

from omni_cli.config import EngineConfig
from omni_cli.errors import EngineError, RequestCancelled
from omni_cli.executor.calls import Calls
from omni_cli.executor.crew import Crew
from omni_cli.executor.launch import WorkerProcess
from omni_cli.executor.link import Link
from omni_cli.executor.protocol import Handle
from omni_cli.executor.pump import Handler
from omni_cli.transport import messages as m
from tests.executor.puppet import D2H, FORWARD, HEADER, PIXELS, planned


class Script(Crew):
    """A crew of one ready worker without a process: `on_send` plays its part, on the sender's own thread."""

    def __init__(self) -> None:
        ids = count(1).__next__
        super().__init__(EngineConfig(), cast(Handler, None), ids, None)
        self.links.append(Link(0, cast(WorkerProcess, None), 0.0, ready=True))
        self.sent: list[m.ToWorker] = []
        self.on_send: Callable[[m.ToWorker], None] = lambda message: None
        self.calls = Calls(EngineConfig(), self, ids, lambda event: None, lambda *_: None)

    def send(self, worker: int, message: m.ToWorker) -> None:
        self.sent.append(message)
        self.on_send(message)

    def start(self, call: m.ExecuteModel) -> None:
        ids = tuple(request.id for request in call.requests)
        self.calls.on_started(self.links[0], m.Started(rpc_id=call.rpc_id, request_ids=ids))

    def compute(self, call: m.ExecuteModel) -> None:
        ids = tuple(f"{call.batch_id}/{request.id}" for request in call.requests)
        self.calls.on_compute_done(
            self.links[0], m.ComputeDone(rpc_id=call.rpc_id, async_output_ids=ids, forward=FORWARD)
        )

    def output(self, call: m.ExecuteModel, id_: str) -> bool:
        message = m.OutputReady(async_output_id=f"{call.batch_id}/{id_}", header=HEADER, inline=PIXELS, d2h=D2H)
        return self.calls.on_output_ready(self.links[0], message, [])


@pytest.fixture
def script(_nothing_is_left_behind: None) -> Iterator[Script]:
    script = Script()
    yield script
    script._pump.stop()


def settled(handle: Handle) -> tuple[bool, bool]:
    return handle.compute_done.done(), handle.output_ready.done()


def test_a_batch_that_is_answered_before_submit_has_returned_is_there_when_it_does(script: Script) -> None:
    def answer(message: m.ToWorker) -> None:
        assert isinstance(message, m.ExecuteModel)
        script.start(message)
        script.compute(message)
        for request in message.requests:
            assert script.output(message, request.id)

    script.on_send = answer
    handles = script.calls.submit(planned("a", "b"))
    for handle in handles:
        assert handle.compute_done.result(0) == FORWARD
        assert bytes(handle.output_ready.result(0).buffer) == PIXELS
    assert script.calls.books.lines() == []


def test_outputs_before_compute_done_and_both_before_submit_has_returned(script: Script) -> None:
    def answer(message: m.ToWorker) -> None:
        assert isinstance(message, m.ExecuteModel)
        script.start(message)
        assert script.output(message, "b")
        assert script.output(message, "a")
        script.compute(message)

    script.on_send = answer
    handles = script.calls.submit(planned("a", "b"))
    assert [settled(handle) for handle in handles] == [(True, True)] * 2
    assert handles[0].compute_done.result(0).end == D2H.start
    assert script.calls.books.lines() == []


def test_a_cancel_while_the_call_is_being_sent_comes_after_it_and_its_output_is_nobodys(script: Script) -> None:
    given: list[m.ExecuteModel] = []

    def answer(message: m.ToWorker) -> None:
        if isinstance(message, m.ExecuteModel):
            given.append(message)
            script.start(message)
            script.calls.cancel_waiting()  # finds nothing that waits
            for entry_id in (f"{message.batch_id}/{request.id}" for request in message.requests):
                script.calls.cancel(Handle(planned("x")[0], entry_id))

    script.on_send = answer
    handles = script.calls.submit(planned("a", "b"))
    for handle in handles:
        assert isinstance(handle.output_ready.exception(0), RequestCancelled)
        assert isinstance(handle.compute_done.exception(0), RequestCancelled)
    assert [type(message) for message in script.sent] == [m.ExecuteModel, m.Cancel]
    script.compute(given[0])
    assert not script.output(given[0], "a"), "its memory goes back at once"
    assert script.calls.books.lines() == []


def test_a_future_cancelled_by_its_holder_between_two_calls_is_left_out_of_what_is_sent(script: Script) -> None:
    first, second, third = (script.calls.submit(planned(id_))[0] for id_ in "abc")
    assert third.output_ready.cancel()
    assert not second.output_ready.cancel(), "it has been sent"
    call = script.sent[0]
    assert isinstance(call, m.ExecuteModel)
    script.start(call)
    script.compute(call)
    assert len(script.sent) == 2, "the third was the only one that could have followed"
    assert third.compute_done.cancelled()
    assert first.compute_done.result(0) == FORWARD


def test_an_end_with_every_kind_of_future_waiting_leaves_none(script: Script) -> None:
    computed, running, inbox, waiting = (script.calls.submit(planned(id_))[0] for id_ in "abcd")
    call = script.sent[0]
    assert isinstance(call, m.ExecuteModel)
    script.start(call)
    script.compute(call)
    second = script.sent[1]
    assert isinstance(second, m.ExecuteModel)
    script.start(second)
    script.calls.end(EngineError("over"))
    futures: list[Future[Any]] = [handle.output_ready for handle in (computed, running, inbox, waiting)]
    futures += [handle.compute_done for handle in (running, inbox, waiting)]
    assert [str(future.exception(0)) for future in futures] == ["over"] * 7
    assert computed.compute_done.result(0) == FORWARD
    assert not script.output(second, "b"), "what comes after the end is dropped"
