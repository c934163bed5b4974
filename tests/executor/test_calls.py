"""Whatever order a worker answers in, each future is settled once, with the right thing, and each slot comes back."""

import concurrent.futures
import threading
from concurrent.futures import ThreadPoolExecutor

from omni_cli.errors import ForwardError, MediaContractError, RequestCancelled
from omni_cli.events import ForwardDone, ForwardStarted, ForwardStep, Note, OutputReady
from omni_cli.executor.protocol import Handle
from omni_cli.transport import messages as m
from tests.executor.puppet import D2H, FORWARD, HEADER, PATIENCE_S, PIXELS, Stage, error, planned


def pixels(handle: Handle) -> bytes:
    """The output's bytes; its memory is given back."""
    output = handle.output_ready.result(PATIENCE_S)
    data = bytes(output.buffer)
    output.release()
    return data


def test_both_futures_get_their_answers_and_the_observer_hears_of_each_stage(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        (handle,) = executor.submit(planned("a"))
        call = worker.begin()
        worker.send(m.Step(rpc_id=call.rpc_id, step=1, total=2))
        worker.compute(call)
        assert handle.compute_done.result(PATIENCE_S) == FORWARD
        assert not handle.output_ready.done()
        worker.output(call, "a")
        output = handle.output_ready.result(PATIENCE_S)
        assert (bytes(output.buffer), output.forward, output.d2h, output.attempts) == (PIXELS, FORWARD, D2H, 1)
    kinds = [type(event) for event in stage.events if not isinstance(event, Note)][-4:]
    assert kinds == [ForwardStarted, ForwardStep, ForwardDone, OutputReady]


def test_an_output_that_overtakes_its_compute_done_is_taken_and_tells_of_the_forward(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        (handle,) = executor.submit(planned("a"))
        call = worker.begin()
        worker.output(call, "a")
        assert pixels(handle) == PIXELS
        assert handle.compute_done.result(PATIENCE_S).end == D2H.start
        worker.compute(call)
        (later,) = executor.submit(planned("b"))
        worker.finish(worker.begin())
        assert pixels(later) == PIXELS
    forwards = [event.ids for event in stage.events if isinstance(event, ForwardDone)]
    assert forwards == [("a",), ("b",)]


def test_one_output_of_a_batch_overtakes_and_the_other_follows(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        first, second = executor.submit(planned("a", "b"))
        call = worker.begin()
        worker.output(call, "b")
        assert pixels(second) == PIXELS
        worker.compute(call)
        assert first.compute_done.result(PATIENCE_S) == FORWARD
        worker.output(call, "a")
        assert pixels(first) == PIXELS
    assert [event.ids for event in stage.events if isinstance(event, ForwardDone)] == [("b",), ("a",)]


def test_an_answer_that_nobody_waits_for_yet_is_kept(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        handles = executor.submit(planned("a"))
        worker.finish(worker.begin())
        stage.wait_for(OutputReady)
        # The executor has dealt with it before the caller has looked at what `submit` gave.
        got = threading.Event()
        handles[0].output_ready.add_done_callback(lambda future: got.set())
        assert got.wait(PATIENCE_S)


def test_the_next_call_is_in_the_inbox_while_one_runs_and_no_more(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        handles = [executor.submit(planned(id_))[0] for id_ in "abcd"]
        first, second = worker.begin(), worker.expect(m.ExecuteModel)
        assert worker.hears_nothing()
        worker.compute(first)
        third = worker.expect(m.ExecuteModel)
        assert worker.hears_nothing()
        worker.output(first, "a")
        worker.start(second)
        worker.finish(second)
        worker.start(third)
        worker.finish(third)
        worker.finish(worker.begin())
        assert [pixels(handle) for handle in handles] == [PIXELS] * 4
        assert [call.requests[0].id for call in (first, second, third)] == ["a", "b", "c"]


def test_a_forward_that_raises_fails_its_requests_with_the_remote_traceback_and_the_next_goes_on(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        broken = executor.submit(planned("a", "b"))
        (good,) = executor.submit(planned("c"))
        worker.compute(worker.begin(), error())
        for handle in broken:
            for future in (handle.compute_done, handle.output_ready):
                raised = future.exception(PATIENCE_S)
                assert isinstance(raised, ForwardError)
                assert str(raised) == "it broke"
                assert "Traceback of the worker" in str(raised.__cause__)
        worker.finish(worker.begin())
        assert pixels(good) == PIXELS


def test_an_output_that_cannot_be_packed_fails_alone(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        first, second = executor.submit(planned("a", "b"))
        call = worker.begin()
        worker.compute(call)
        worker.output(call, "a", slot=True)
        worker.output(call, "b", failure=error("media_contract", "NaN"))
        assert pixels(first) == PIXELS
        assert isinstance(second.output_ready.exception(PATIENCE_S), MediaContractError)
        assert second.compute_done.result() == FORWARD
        assert worker.expect(m.ReleaseSlot).slot_id == 1


def test_a_request_cancelled_before_it_is_sent_is_never_sent(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        running, waiting = executor.submit(planned("a")), executor.submit(planned("b"))
        (handle,) = executor.submit(planned("c"))
        batch = executor.submit(planned("d", "e"))
        executor.cancel(handle)
        batch[0].output_ready.cancel()  # by its holder, without a word to the executor
        # Both are told to those who sit in `wait` as well, which needs more than the cancelled state.
        assert concurrent.futures.wait([handle.compute_done, handle.output_ready], PATIENCE_S).not_done == set()
        assert handle.output_ready.cancelled()
        worker.finish(worker.begin())
        worker.finish(worker.begin())
        assert [request.id for request in worker.begin().requests] == ["e"]
        assert [pixels(h) for h in (*running, *waiting)] == [PIXELS] * 2
        assert batch[0].compute_done.cancelled()


def test_a_request_cancelled_in_the_inbox_ends_at_once_and_the_worker_is_told(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        executor.submit(planned("a"))
        (handle,) = executor.submit(planned("b"))
        first, second = worker.begin(), worker.expect(m.ExecuteModel)
        executor.cancel(handle)
        assert isinstance(handle.output_ready.exception(PATIENCE_S), RequestCancelled)
        assert worker.expect(m.Cancel).rpc_id == second.rpc_id
        (third,) = executor.submit(planned("c"))
        assert worker.hears_nothing(), "the cancelled call is still in the worker's hands"
        worker.finish(first)
        assert [request.id for request in worker.expect(m.ExecuteModel).requests] == ["c"]
        worker.compute(second, error("cancelled"))
        executor.cancel(third)


def test_a_running_call_is_cancelled_only_when_nobody_waits_for_it(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        first, second = executor.submit(planned("a", "b"))
        call = worker.begin()
        executor.cancel(first)
        assert worker.hears_nothing()
        executor.cancel(second)
        assert worker.expect(m.Cancel).rpc_id == call.rpc_id
        for handle in (first, second):
            assert isinstance(handle.compute_done.exception(PATIENCE_S), RequestCancelled)
            assert isinstance(handle.output_ready.exception(PATIENCE_S), RequestCancelled)
        worker.compute(call, error("cancelled"))
        executor.submit(planned("c"))
        assert worker.begin().requests[0].id == "c"


def test_the_slot_of_an_output_that_was_given_up_in_flight_comes_back(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        (handle,) = executor.submit(planned("a"))
        call = worker.begin()
        worker.compute(call)
        handle.compute_done.result(PATIENCE_S)
        executor.cancel(handle)
        worker.output(call, "a", slot=True)
        assert worker.expect(m.ReleaseSlot).slot_id == 1
        worker.pool.release(1)
        # The slot's descriptor does not travel again: the parent must have mapped it all the same.
        (again,) = executor.submit(planned("b"))
        call = worker.begin()
        worker.compute(call)
        worker.output(call, "b", slot=True)
        assert pixels(again) == PIXELS


def test_cancel_waiting_leaves_what_runs_and_what_is_computed(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        handles = [executor.submit(planned(id_))[0] for id_ in "abcd"]
        computed = worker.begin()
        worker.compute(computed)
        running, inbox = worker.begin(), worker.expect(m.ExecuteModel)
        worker.send(m.Step(rpc_id=running.rpc_id, step=1, total=1))
        stage.wait_for(ForwardStep)
        executor.cancel_waiting()
        assert worker.expect(m.Cancel).rpc_id == inbox.rpc_id
        worker.output(computed, "a")
        worker.finish(running)
        assert [pixels(handle) for handle in handles[:2]] == [PIXELS] * 2
        assert isinstance(handles[2].output_ready.exception(PATIENCE_S), RequestCancelled)
        assert handles[3].output_ready.cancelled()


def test_people_are_told_once_of_what_rows_repeat(stage: Stage) -> None:
    notes = ("something new", f"{m.STANDING}something old")
    with stage.executor() as (executor, worker):
        (handle,) = executor.submit(planned("a"))
        call = worker.begin()
        worker.compute(call)
        output_id = f"{call.batch_id}/a"
        worker.send(m.OutputReady(async_output_id=output_id, header=HEADER, inline=PIXELS, d2h=D2H, notes=notes))
        assert handle.output_ready.result(PATIENCE_S).notes == notes
    assert [event.text for event in stage.events if isinstance(event, Note)] == ["a: something new"]


def test_held_calls_wait_in_the_books_and_go_on_in_their_order(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        handles = [executor.submit(planned(id_))[0] for id_ in "abc"]
        first, second = worker.begin(), worker.expect(m.ExecuteModel)
        executor.hold(True)
        handles += executor.submit(planned("d"))
        worker.finish(first)
        assert pixels(handles[0]) == PIXELS
        worker.start(second)
        worker.finish(second)
        assert pixels(handles[1]) == PIXELS
        assert worker.hears_nothing(), "what was in the inbox went on, and nothing else was sent"
        executor.cancel(handles[2])
        assert handles[2].output_ready.cancelled()
        executor.hold(False)
        call = worker.begin()
        assert [request.id for request in call.requests] == ["d"]
        worker.finish(call)
        assert pixels(handles[3]) == PIXELS


def test_requests_from_many_threads_are_each_answered_once(stage: Stage) -> None:
    with stage.executor() as (executor, worker), ThreadPoolExecutor(4) as threads:
        submitted = [threads.submit(executor.submit, planned(str(n))) for n in range(40)]
        order = []
        for _ in submitted:
            call = worker.begin()
            order.append(call.requests[0].id)
            worker.finish(call)
        handles = [handle for future in submitted for handle in future.result(PATIENCE_S)]
        assert [pixels(handle) for handle in handles] == [PIXELS] * 40
        assert sorted(order, key=int) == [str(n) for n in range(40)]
