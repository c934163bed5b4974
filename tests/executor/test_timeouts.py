"""What takes too long is told, with the books in the log, and holds nobody else up."""

import logging
import re

import pytest

from omni_cli.errors import OutputTimeout
from omni_cli.executor.faults import PoisonousRequest
from omni_cli.transport import messages as m
from tests.executor.puppet import PATIENCE_S, PIXELS, Stage, planned


def test_an_output_that_does_not_come_fails_its_request_and_the_log_has_the_books(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "omni_gen"), stage.executor(output_timeout=0.05) as (executor, worker):
        late = executor.submit(planned("a", "b"))
        (running,), _, (waiting,) = (executor.submit(planned(id_)) for id_ in "cde")
        call = worker.begin()
        worker.begin()
        worker.output(call, "b", slot=True)
        assert bytes(late[1].output_ready.result(PATIENCE_S).buffer) == PIXELS
        worker.compute(call)
        raised = late[0].output_ready.exception(PATIENCE_S)
        assert isinstance(raised, OutputTimeout)
        assert "no OUTPUT_READY within 0.05 s" in str(raised)
        assert raised.attempts == 1
        assert late[0].compute_done.done()
        assert not running.output_ready.done()
        assert not waiting.output_ready.done()
    assert re.search(
        rf"call {call.rpc_id}: computed for \d+\.\d s, worker 0: awaiting {call.batch_id}/a\n", caplog.text
    )
    for state in ("running", "sent", "waiting"):
        assert re.search(rf"call \d+: {state} for \d+\.\d s, worker (0|None): awaiting batch-\d+/\w\n", caplog.text)
    held = rf"slot 1 read by {call.batch_id}/b for \d+\.\d s"
    assert re.search(rf"worker 0 \(pid \d+\): ready, last heard of \d+\.\d s ago; {held}\n", caplog.text)


def test_the_slot_of_an_output_that_comes_after_all_is_given_back(stage: Stage) -> None:
    with stage.executor(output_timeout=0.05) as (executor, worker):
        (handle,) = executor.submit(planned("a"))
        call = worker.begin()
        worker.compute(call)
        assert isinstance(handle.output_ready.exception(PATIENCE_S), OutputTimeout)
        worker.output(call, "a", slot=True)
        assert worker.expect(m.ReleaseSlot).slot_id == 1


def test_a_forward_that_takes_too_long_costs_its_worker_and_the_second_time_its_request(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "omni_gen"), stage.executor(forward_timeout=0.05) as (executor, worker):
        (stuck,), (next_,) = executor.submit(planned("a")), executor.submit(planned("b"))
        worker.begin()
        heir = stage.next()
        heir.load()
        assert [request.id for request in heir.begin().requests] == ["a"]
        third = stage.next()
        raised = stuck.output_ready.exception(PATIENCE_S)
        assert isinstance(raised, PoisonousRequest)
        assert "given up after 2 attempts" in str(raised)
        assert "a forward went past the forward timeout of 0.05 s" in str(raised)
        third.load()
        third.at_once(third.expect(m.ExecuteModel))
        assert bytes(next_.output_ready.result(PATIENCE_S).buffer) == PIXELS
    assert re.search(r"running for \d+\.\d s, worker 0: awaiting batch-\d+/a", caplog.text)
    assert re.search(r"sent for \d+\.\d s, worker 0: awaiting batch-\d+/b", caplog.text)


def test_the_forward_timeout_reaches_a_call_that_was_cancelled_and_does_not_stop(stage: Stage) -> None:
    with stage.executor(forward_timeout=0.05) as (executor, worker):
        (stuck,), (next_,) = executor.submit(planned("a")), executor.submit(planned("b"))
        call = worker.begin()
        executor.cancel(stuck)
        heir = stage.next()
        heir.load()
        call = heir.expect(m.ExecuteModel)
        assert [request.id for request in call.requests] == ["b"]
        heir.at_once(call)
        assert bytes(next_.output_ready.result(PATIENCE_S).buffer) == PIXELS


def test_the_time_in_the_inbox_is_not_a_forwards(stage: Stage) -> None:
    with stage.executor(forward_timeout=0.05, output_timeout=0.2) as (executor, worker):
        first, second = (executor.submit(planned(id_))[0] for id_ in "ab")
        worker.at_once(worker.expect(m.ExecuteModel), outputs=False)
        waiting = worker.expect(m.ExecuteModel)
        # The clock of the output runs out 0.2 s after the forward; that of the call in the inbox has not begun.
        assert isinstance(first.output_ready.exception(PATIENCE_S), OutputTimeout)
        worker.at_once(waiting)
        assert second.output_ready.result(PATIENCE_S).attempts == 1
