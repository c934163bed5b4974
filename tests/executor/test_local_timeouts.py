"""Forward and output timeouts of the local executor, on a clock that the test advances."""

import logging
import re

import pytest

from omni_cli.errors import OutputTimeout
from omni_cli.executor.error_mapping import RequestKilledWorker
from omni_cli.transport import messages as m
from tests.executor.fake_worker import PIXELS, TIMEOUT_S, Harness
from tests.factories import planned_call


def test_output_that_does_not_come_costs_its_worker_and_the_second_time_the_request(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "omni_gen"), harness.executor(output_timeout=5) as (executor, worker):
        late = executor.submit(planned_call("a", "b"))
        (running,), _, (waiting,) = (executor.submit(planned_call(id_)) for id_ in "cde")
        call = worker.begin()
        worker.begin()
        worker.output(call, "b", slot=True)
        output = late[1].output_ready.result(TIMEOUT_S)
        assert bytes(output.buffer) == PIXELS
        worker.compute(call)
        late[0].compute_done.result(TIMEOUT_S)
        worker.expect(m.ExecuteModel)
        output.release()
        assert worker.expect(m.ReleaseSlot).slot_id == 1
        harness.advance(5, worker)
        second = harness.next()
        second.load()
        assert [request.id for request in second.expect(m.ExecuteModel).requests] == ["a"]
        assert not late[0].output_ready.done()
    assert f"call {call.rpc_id}: computed for 5.0 s, worker 0: awaiting {call.batch_id}/a\n" in caplog.text
    for state in ("running", "sent", "waiting"):
        assert re.search(rf"call \d+: {state} for 5\.0 s, worker (0|None): awaiting batch-\d+/\w\n", caplog.text)
    assert running.output_ready.done()
    assert waiting.output_ready.done()


def test_request_whose_output_never_comes_fails_alone(harness: Harness) -> None:
    with harness.executor(output_timeout=5) as (executor, worker):
        (late,) = executor.submit(planned_call("a"))
        (other,) = executor.submit(planned_call("b"))
        for attempt in (1, 2):
            worker.compute(worker.begin())
            late.compute_done.result(TIMEOUT_S)
            worker.expect(m.ExecuteModel)
            harness.advance(5, worker)
            worker = harness.next()
            worker.load()
            assert late.output_ready.done() == (attempt == 2)
        raised = late.output_ready.exception(TIMEOUT_S)
        assert isinstance(raised, OutputTimeout)
        assert "given up after 2 attempts" in str(raised)
        assert "no OUTPUT_READY within 5 s" in str(raised)
        assert raised.attempts == 2
        worker.finish(worker.begin())
        assert bytes(other.output_ready.result(TIMEOUT_S).buffer) == PIXELS


def test_output_is_not_late_while_this_process_holds_the_slots_of_its_worker(harness: Harness) -> None:
    with harness.executor(output_timeout=5) as (executor, worker):
        first, second = executor.submit(planned_call("a", "b"))
        call = worker.begin()
        worker.compute(call)
        worker.output(call, "a", slot=True)
        output = first.output_ready.result(TIMEOUT_S)
        for seconds in (5, 1, 60):
            harness.advance(seconds, worker)
        assert not second.output_ready.done()
        output.release()
        worker.expect(m.ReleaseSlot)
        harness.advance(1, worker)
        harness.advance(4, worker)
        worker.output(call, "b", slot=True)
        assert bytes(second.output_ready.result(TIMEOUT_S).buffer) == PIXELS


def test_each_output_gives_those_behind_it_their_time(harness: Harness) -> None:
    with harness.executor(output_timeout=5) as (executor, worker):
        handles = executor.submit(planned_call("a", "b", "c"))
        call = worker.begin()
        worker.compute(call)
        for handle, id_ in zip(handles, "abc", strict=True):
            harness.advance(4, worker)
            worker.output(call, id_)
            assert handle.output_ready.result(TIMEOUT_S).attempts == 1


def test_worker_that_does_not_start_its_next_call_is_replaced(harness: Harness) -> None:
    with harness.executor(output_timeout=5) as (executor, worker):
        first, second = (executor.submit(planned_call(id_))[0] for id_ in "ab")
        worker.finish(worker.begin())
        first.output_ready.result(TIMEOUT_S)
        worker.expect(m.ExecuteModel)
        harness.advance(5, worker)
        replacement = harness.next()
        replacement.load()
        replacement.finish(replacement.begin())
        assert second.output_ready.result(TIMEOUT_S).attempts == 1


def test_time_in_which_the_parent_did_not_run_counts_for_no_deadline(harness: Harness) -> None:
    with harness.executor(output_timeout=5, forward_timeout=5.0) as (executor, worker):
        first, second = (executor.submit(planned_call(id_))[0] for id_ in "ab")
        call = worker.begin()
        worker.compute(call)
        first.compute_done.result(TIMEOUT_S)
        running = worker.begin()
        executor.on_gap(3600.0)
        harness.advance(3604, worker)
        worker.output(call, "a")
        worker.finish(running)
        for handle in (first, second):
            assert bytes(handle.output_ready.result(TIMEOUT_S).buffer) == PIXELS


def test_forward_timeout_kills_the_worker_and_the_second_time_fails_the_request(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "omni_gen"), harness.executor(forward_timeout=5.0) as (executor, worker):
        (stuck,), (next_,) = executor.submit(planned_call("a")), executor.submit(planned_call("b"))
        worker.begin()
        harness.advance(4, worker)
        harness.advance(1, worker)
        replacement = harness.next()
        replacement.load()
        assert [request.id for request in replacement.begin().requests] == ["a"]
        harness.advance(5, replacement)
        third = harness.next()
        raised = stuck.output_ready.exception(TIMEOUT_S)
        assert isinstance(raised, RequestKilledWorker)
        assert "given up after 2 attempts" in str(raised)
        assert "a forward exceeded --forward-timeout of 5.0 s" in str(raised)
        third.load()
        third.finish(third.begin())
        assert bytes(next_.output_ready.result(TIMEOUT_S).buffer) == PIXELS
    assert re.search(r"running for 5\.0 s, worker 0: awaiting batch-\d+/a", caplog.text)
    assert re.search(r"sent for 5\.0 s, worker 0: awaiting batch-\d+/b", caplog.text)


def test_forward_timeout_applies_to_a_cancelled_call_that_does_not_stop(harness: Harness) -> None:
    with harness.executor(forward_timeout=5.0) as (executor, worker):
        (stuck,), (next_,) = executor.submit(planned_call("a")), executor.submit(planned_call("b"))
        call = worker.begin()
        worker.expect(m.ExecuteModel)
        executor.cancel(stuck)
        assert worker.expect(m.Cancel).rpc_id == call.rpc_id
        harness.advance(5, worker)
        replacement = harness.next()
        replacement.load()
        call = replacement.begin()
        assert [request.id for request in call.requests] == ["b"]
        replacement.finish(call)
        assert bytes(next_.output_ready.result(TIMEOUT_S).buffer) == PIXELS


def test_time_in_the_inbox_does_not_count_as_forward_time(harness: Harness) -> None:
    with harness.executor(forward_timeout=5.0, output_timeout=20) as (executor, worker):
        first, second = (executor.submit(planned_call(id_))[0] for id_ in "ab")
        worker.compute(worker.begin())
        in_inbox = worker.expect(m.ExecuteModel)
        first.compute_done.result(TIMEOUT_S)
        harness.advance(19, worker)
        assert not first.output_ready.done()
        worker.start(in_inbox)
        worker.finish(in_inbox)
        assert second.output_ready.result(TIMEOUT_S).attempts == 1
