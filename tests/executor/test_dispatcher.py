"""The dispatcher resolves each future once and releases each slot, in whatever order a worker answers."""

import concurrent.futures
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from omni_cli.errors import ForwardError, MediaContractError, RequestCancelled
from omni_cli.events import ForwardDone, ForwardStarted, ForwardStep, Note, OutputArrived
from omni_cli.executor.protocol import Handle
from omni_cli.notes import STANDING
from omni_cli.request import Interval
from omni_cli.transport import messages as m
from tests.executor.fake_worker import D2H, FORWARD, HEADER, PIXELS, TIMEOUT_S, Harness, error
from tests.factories import planned_call


def pixels(handle: Handle) -> bytes:
    """Return the bytes of the output and release it."""
    output = handle.output_ready.result(TIMEOUT_S)
    data = bytes(output.buffer)
    output.release()
    return data


def test_both_futures_resolve_and_each_stage_is_observed(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        (handle,) = executor.submit(planned_call("a"))
        call = worker.begin()
        worker.send(m.Step(rpc_id=call.rpc_id, step=1, total=2))
        worker.compute(call)
        assert handle.compute_done.result(TIMEOUT_S) == FORWARD
        assert not handle.output_ready.done()
        worker.output(call, "a")
        output = handle.output_ready.result(TIMEOUT_S)
        assert (bytes(output.buffer), output.forward, output.d2h, output.attempts) == (PIXELS, FORWARD, D2H, 1)
    kinds = [type(event) for event in harness.events if not isinstance(event, Note)][-4:]
    assert kinds == [ForwardStarted, ForwardStep, ForwardDone, OutputArrived]


def test_output_before_its_compute_done_resolves_both_futures(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        (handle,) = executor.submit(planned_call("a"))
        call = worker.begin()
        worker.output(call, "a")
        assert pixels(handle) == PIXELS
        assert handle.compute_done.result(TIMEOUT_S).end == D2H.start
        worker.compute(call)
        (later,) = executor.submit(planned_call("b"))
        worker.finish(worker.begin())
        assert pixels(later) == PIXELS
    forwards = [event.ids for event in harness.events if isinstance(event, ForwardDone)]
    assert forwards == [("a",), ("b",)]


def test_one_output_of_a_batch_may_come_before_compute_done_and_one_after(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        first, second = executor.submit(planned_call("a", "b"))
        call = worker.begin()
        worker.output(call, "b")
        assert pixels(second) == PIXELS
        worker.compute(call)
        assert first.compute_done.result(TIMEOUT_S) == FORWARD
        worker.output(call, "a")
        assert pixels(first) == PIXELS
    assert [event.ids for event in harness.events if isinstance(event, ForwardDone)] == [("a", "b")]


@pytest.mark.parametrize("first_fails", [False, True])
def test_forward_of_an_asynchronous_device_is_reported_once_with_the_time_of_the_device(
    harness: Harness, first_fails: bool
) -> None:
    with harness.executor() as (executor, worker):
        handles = executor.submit(planned_call("a", "b", "c"))
        call = worker.begin()
        worker.compute(call, launched=True)
        assert handles[0].compute_done.result(TIMEOUT_S) == FORWARD
        worker.output(call, "a", failure=error("media_contract") if first_fails else None, forward=Interval(1.5, 3.0))
        worker.output(call, "b", forward=Interval(1.5, 3.000001))
        worker.output(call, "c", failure=error("media_contract"), forward=Interval(1.5, 3.0))
        assert handles[2].output_ready.exception(TIMEOUT_S) is not None
    forwards = [event for event in harness.events if isinstance(event, ForwardDone)]
    assert [(event.ids, event.forward) for event in forwards] == [(("a", "b", "c"), Interval(1.5, 3.0))]


def test_output_that_fails_in_the_decode_does_not_report_the_forward_that_goes_on(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        executor.submit(planned_call("a", "b"))
        call = worker.begin()
        worker.output(call, "a", failure=error("non_finite_output"))
        worker.compute(call, launched=True)
        worker.output(call, "b")  # by a device without a clock
        harness.wait_for(OutputArrived)
    forwards = [event for event in harness.events if isinstance(event, ForwardDone)]
    assert [(event.ids, event.forward) for event in forwards] == [(("b",), FORWARD)]


def test_output_that_arrives_before_the_caller_waits_is_kept(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        handles = executor.submit(planned_call("a"))
        worker.finish(worker.begin())
        harness.wait_for(OutputArrived)
        resolved = threading.Event()
        handles[0].output_ready.add_done_callback(lambda future: resolved.set())
        assert resolved.wait(TIMEOUT_S)


def test_worker_has_the_next_call_while_one_runs_and_no_more(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        handles = [executor.submit(planned_call(id_))[0] for id_ in "abcd"]
        first, second = worker.begin(), worker.expect(m.ExecuteModel)
        assert worker.has_no_message()
        worker.compute(first)
        third = worker.expect(m.ExecuteModel)
        assert worker.has_no_message()
        worker.output(first, "a")
        worker.start(second)
        worker.finish(second)
        worker.start(third)
        worker.finish(third)
        worker.finish(worker.begin())
        assert [pixels(handle) for handle in handles] == [PIXELS] * 4
        assert [call.requests[0].id for call in (first, second, third)] == ["a", "b", "c"]


def test_failed_forward_fails_its_requests_with_the_remote_traceback_and_the_next_call_runs(
    harness: Harness,
) -> None:
    with harness.executor() as (executor, worker):
        broken = executor.submit(planned_call("a", "b"))
        (good,) = executor.submit(planned_call("c"))
        worker.compute(worker.begin(), error())
        for handle in broken:
            for future in (handle.compute_done, handle.output_ready):
                raised = future.exception(TIMEOUT_S)
                assert isinstance(raised, ForwardError)
                assert str(raised) == "it broke"
                assert "Traceback of the worker" in str(raised.__cause__)
        worker.finish(worker.begin())
        assert pixels(good) == PIXELS


def test_output_that_cannot_be_packed_fails_alone(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        first, second = executor.submit(planned_call("a", "b"))
        call = worker.begin()
        worker.compute(call)
        worker.output(call, "a", slot=True)
        worker.output(call, "b", failure=error("media_contract", "NaN"))
        assert pixels(first) == PIXELS
        assert isinstance(second.output_ready.exception(TIMEOUT_S), MediaContractError)
        assert second.compute_done.result() == FORWARD
        assert worker.expect(m.ReleaseSlot).slot_id == 1


def test_request_cancelled_before_it_is_sent_is_never_sent(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        running, waiting = executor.submit(planned_call("a")), executor.submit(planned_call("b"))
        (handle,) = executor.submit(planned_call("c"))
        batch = executor.submit(planned_call("d", "e"))
        executor.cancel(handle)
        batch[0].output_ready.cancel()  # by its holder, without the executor
        # `wait` returns too, for which a cancelled future must have been notified.
        assert concurrent.futures.wait([handle.compute_done, handle.output_ready], TIMEOUT_S).not_done == set()
        assert handle.output_ready.cancelled()
        worker.finish(worker.begin())
        worker.finish(worker.begin())
        assert [request.id for request in worker.begin().requests] == ["e"]
        assert [pixels(h) for h in (*running, *waiting)] == [PIXELS] * 2
        assert batch[0].compute_done.cancelled()


def test_request_cancelled_in_the_inbox_ends_at_once_and_its_worker_is_sent_cancel(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        executor.submit(planned_call("a"))
        (handle,) = executor.submit(planned_call("b"))
        first, second = worker.begin(), worker.expect(m.ExecuteModel)
        executor.cancel(handle)
        assert isinstance(handle.output_ready.exception(TIMEOUT_S), RequestCancelled)
        assert worker.expect(m.Cancel).rpc_id == second.rpc_id
        (third,) = executor.submit(planned_call("c"))
        assert worker.has_no_message(), "the cancelled call still takes up the inbox"
        worker.finish(first)
        assert [request.id for request in worker.expect(m.ExecuteModel).requests] == ["c"]
        worker.compute(second, error("cancelled"))
        executor.cancel(third)


def test_running_call_is_cancelled_once_all_its_requests_are(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        first, second = executor.submit(planned_call("a", "b"))
        call = worker.begin()
        executor.cancel(first)
        assert worker.has_no_message()
        executor.cancel(second)
        assert worker.expect(m.Cancel).rpc_id == call.rpc_id
        for handle in (first, second):
            assert isinstance(handle.compute_done.exception(TIMEOUT_S), RequestCancelled)
            assert isinstance(handle.output_ready.exception(TIMEOUT_S), RequestCancelled)
        worker.compute(call, error("cancelled"))
        executor.submit(planned_call("c"))
        assert worker.begin().requests[0].id == "c"


def test_slot_of_an_output_cancelled_in_flight_is_released(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        (handle,) = executor.submit(planned_call("a"))
        call = worker.begin()
        worker.compute(call)
        handle.compute_done.result(TIMEOUT_S)
        executor.cancel(handle)
        worker.output(call, "a", slot=True)
        assert worker.expect(m.ReleaseSlot).slot_id == 1
        worker.pool.release(1)
        # The slot's descriptor is not sent again: the parent must have mapped the slot of the dropped output.
        (again,) = executor.submit(planned_call("b"))
        call = worker.begin()
        worker.compute(call)
        worker.output(call, "b", slot=True)
        assert pixels(again) == PIXELS


def test_cancel_without_handle_leaves_running_and_computed_requests(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        handles = [executor.submit(planned_call(id_))[0] for id_ in "abcd"]
        computed = worker.begin()
        worker.compute(computed)
        running, inbox = worker.begin(), worker.expect(m.ExecuteModel)
        worker.send(m.Step(rpc_id=running.rpc_id, step=1, total=1))
        harness.wait_for(ForwardStep)
        executor.cancel()
        assert worker.expect(m.Cancel).rpc_id == inbox.rpc_id
        worker.output(computed, "a")
        worker.finish(running)
        assert [pixels(handle) for handle in handles[:2]] == [PIXELS] * 2
        assert isinstance(handles[2].output_ready.exception(TIMEOUT_S), RequestCancelled)
        assert handles[3].output_ready.cancelled()


def test_standing_notes_are_not_observed_again(harness: Harness) -> None:
    notes = ("something new", f"{STANDING}something old")
    with harness.executor() as (executor, worker):
        (handle,) = executor.submit(planned_call("a"))
        call = worker.begin()
        worker.compute(call)
        output_id = f"{call.batch_id}/a"
        worker.send(m.OutputReady(async_output_id=output_id, header=HEADER, inline=PIXELS, d2h=D2H, notes=notes))
        assert handle.output_ready.result(TIMEOUT_S).notes == notes
    assert [event.text for event in harness.events if isinstance(event, Note)] == ["a: something new"]


def test_each_kind_of_note_is_observed_once_and_every_output_has_its_own(harness: Harness) -> None:
    notes = [('prompt is cut: "one", 7 tokens', "dark"), ('prompt is cut: "two", 9 tokens',), ("dark", "blackened")]
    with harness.executor() as (executor, worker):
        handles = [executor.submit(planned_call(id_))[0] for id_ in "abc"]
        for handle, texts in zip(handles, notes, strict=True):
            call = worker.begin()
            worker.compute(call)
            output_id = f"{call.batch_id}/{handle.planned.id}"
            worker.send(m.OutputReady(async_output_id=output_id, header=HEADER, inline=PIXELS, d2h=D2H, notes=texts))
            assert handle.output_ready.result(TIMEOUT_S).notes == texts
    shown = [event.text for event in harness.events if isinstance(event, Note)]
    assert shown == ['a: prompt is cut: "one", 7 tokens', "a: dark", "c: blackened"]


def test_paused_dispatch_keeps_calls_queued_in_order(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        handles = [executor.submit(planned_call(id_))[0] for id_ in "abc"]
        first, second = worker.begin(), worker.expect(m.ExecuteModel)
        executor.pause_dispatch(True)
        handles += executor.submit(planned_call("d"))
        worker.finish(first)
        assert pixels(handles[0]) == PIXELS
        worker.start(second)
        worker.finish(second)
        assert pixels(handles[1]) == PIXELS
        assert worker.has_no_message(), "the call in the inbox went on, and nothing else was sent"
        executor.cancel(handles[2])
        assert handles[2].output_ready.cancelled()
        executor.pause_dispatch(False)
        call = worker.begin()
        assert [request.id for request in call.requests] == ["d"]
        worker.finish(call)
        assert pixels(handles[3]) == PIXELS


def test_requests_from_many_threads_each_resolve_once(harness: Harness) -> None:
    with harness.executor() as (executor, worker), ThreadPoolExecutor(4) as threads:
        submitted = [threads.submit(executor.submit, planned_call(str(n))) for n in range(40)]
        order = []
        for _ in submitted:
            call = worker.begin()
            order.append(call.requests[0].id)
            worker.finish(call)
        handles = [handle for future in submitted for handle in future.result(TIMEOUT_S)]
        assert [pixels(handle) for handle in handles] == [PIXELS] * 40
        assert sorted(order, key=int) == [str(n) for n in range(40)]
