"""Worker deaths: the local executor notices them at once, reports their cause, and retries or fails the requests."""

import logging
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest

from omni_cli.errors import EngineError, RequestError, WorkerDied
from omni_cli.events import AnyEvent, ForwardStarted, Note, OutputArrived
from omni_cli.executor.error_mapping import RequestKilledWorker
from omni_cli.transport import messages as m
from tests.executor.fake_worker import PIXELS, SIGKILL, TIMEOUT_S, Harness, error, frame
from tests.factories import planned_call

DEATHS = {
    SIGKILL: "was killed by SIGKILL",
    "os.kill(os.getpid(), signal.SIGSEGV)": "was killed by SIGSEGV",
    "os.kill(os.getpid(), signal.SIGTERM)": "was killed by SIGTERM",
    "os._exit(7)": "exited with code 7",
    "os._exit(0)": "exited with code 0",
}


@pytest.mark.parametrize("code", DEATHS)
def test_worker_death_is_reported_with_its_cause_and_its_requests_are_retried(
    harness: Harness, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "omni_gen"), harness.executor() as (executor, worker):
        handles = [executor.submit(planned_call(id_))[0] for id_ in "abc"]
        worker.begin()
        worker.do("sys.stderr.write('last words\\n'); sys.stderr.flush()")
        worker.die(code)
        replacement = harness.next()
        replacement.load()
        for id_ in "abc":
            call = replacement.begin()
            assert [request.id for request in call.requests] == [id_]
            replacement.finish(call)
        outputs = [handle.output_ready.result(TIMEOUT_S) for handle in handles]
        assert [output.attempts for output in outputs] == [2, 1, 1]
    (note,) = [event for event in harness.events if isinstance(event, Note)]
    assert DEATHS[code] in note.text
    assert "\n" not in note.text
    assert "last words" in caplog.text


def test_end_of_the_channel_is_a_death_even_if_the_process_lives(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        (handle,) = executor.submit(planned_call("a"))
        worker.begin()
        worker.channel.close()
        replacement = harness.next()
        replacement.load()
        replacement.finish(replacement.begin())
        assert handle.output_ready.result(TIMEOUT_S).attempts == 2


def test_messages_sent_before_a_death_count(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        first, second = (executor.submit(planned_call(id_))[0] for id_ in "ab")
        call = worker.begin()
        worker.finish(call)
        worker.die()
        assert bytes(first.output_ready.result(TIMEOUT_S).buffer) == PIXELS
        replacement = harness.next()
        replacement.load()
        call = replacement.begin()
        assert [request.id for request in call.requests] == ["b"]
        replacement.finish(call)
        second.output_ready.result(TIMEOUT_S)


def test_computed_request_whose_output_was_lost_is_computed_again(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        (handle,) = executor.submit(planned_call("a"))
        worker.compute(worker.begin())
        handle.compute_done.result(TIMEOUT_S)
        worker.die()
        replacement = harness.next()
        replacement.load()
        replacement.finish(replacement.begin())
        assert handle.output_ready.result(TIMEOUT_S).attempts == 2


def test_failure_counts_the_forwards_that_were_started(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        (raising,), (packing,) = executor.submit(planned_call("a")), executor.submit(planned_call("b"))
        worker.begin()
        worker.die()
        replacement = harness.next()
        replacement.load()
        replacement.compute(replacement.begin(), failure=error())
        call = replacement.begin()
        replacement.compute(call)
        replacement.output(call, "b", failure=error("non_finite_output"))
        for handle, kind, attempts in ((raising, "forward_failed", 2), (packing, "non_finite_output", 1)):
            raised = handle.output_ready.exception(TIMEOUT_S)
            assert isinstance(raised, RequestError)
            assert (raised.kind, raised.attempts) == (kind, attempts)


def test_batch_is_split_after_a_death_and_the_request_that_kills_two_workers_fails_alone(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        batch = executor.submit(planned_call("a", "fatal", "c"))
        (last,) = executor.submit(planned_call("d"))
        worker.begin()
        worker.die("os.kill(os.getpid(), signal.SIGSEGV)")
        replacement = harness.next()
        replacement.load()
        replacement.finish(replacement.begin())
        assert [request.id for request in replacement.begin().requests] == ["fatal"]
        replacement.do("sys.stderr.write('last words'); sys.stderr.flush()")
        replacement.die("os.kill(os.getpid(), signal.SIGSEGV)")
        for future in (batch[1].compute_done, batch[1].output_ready):
            raised = future.exception(TIMEOUT_S)
            assert isinstance(raised, RequestKilledWorker)
            assert (raised.kind, raised.attempts) == ("worker_died", 2)
            assert "given up after 2 attempts" in str(raised)
            assert "SIGSEGV" in str(raised)
            assert "last words" in str(raised)
        third = harness.next()
        third.load()
        for id_ in "cd":
            call = third.begin()
            assert [request.id for request in call.requests] == [id_]
            third.finish(call)
        attempts = [h.output_ready.result(TIMEOUT_S).attempts for h in (batch[0], batch[2], last)]
        assert attempts == [2, 2, 1]


def test_too_many_deaths_in_a_row_end_the_executor_with_the_last_cause(harness: Harness) -> None:
    with harness.executor(max_restarts=1) as (executor, worker):
        handles = [executor.submit(planned_call(id_))[0] for id_ in "abc"]
        worker.die()
        replacement = harness.next()
        replacement.load()
        replacement.begin()
        replacement.do("print('last words', flush=True)")
        replacement.die("os._exit(7)")
        for handle in handles:
            for future in (handle.compute_done, handle.output_ready):
                assert isinstance(future.exception(TIMEOUT_S), WorkerDied)
        for raises in (
            lambda: executor.submit(planned_call("d")),
            lambda: executor.collective_rpc("health"),
        ):
            with pytest.raises(
                WorkerDied, match=r"worker 0 \(pid \d+\) exited with code 7; its log ends with:\nlast words"
            ):
                raises()


def test_output_resets_the_count_of_deaths(harness: Harness) -> None:
    with harness.executor(max_restarts=1) as (executor, worker):
        handles = [executor.submit(planned_call(id_))[0] for id_ in "abc"]
        for handle in handles:
            worker.finish(worker.begin())
            handle.output_ready.result(TIMEOUT_S)
            worker.die()
            worker = harness.next()
            worker.load()
        (handle,) = executor.submit(planned_call("d"))
        worker.finish(worker.begin())
        handle.output_ready.result(TIMEOUT_S)


def test_calls_of_a_dead_worker_go_to_the_other_worker(harness: Harness) -> None:
    with harness.pair() as (executor, first, second):
        handles = [executor.submit(planned_call(id_))[0] for id_ in "ab"]
        lost, other = first.begin(), second.begin()
        first.die()
        again = second.expect(m.ExecuteModel)
        assert again.requests == lost.requests
        second.finish(other)
        second.start(again)
        second.finish(again)
        assert [handle.output_ready.result(TIMEOUT_S).worker for handle in handles] == [1, 1]


GARBAGE = {
    "bytes": b"Segmentation fault (core dumped)\n",
    "not msgpack": frame(b"\xc1\xc1"),
    "unknown message": frame(b"\x81\xa4type\xa5Greet"),
    "a message to a worker": frame(m.encode(m.Shutdown())),
    "an answer nobody asked for": frame(m.encode(m.RpcResult(rpc_id=999))),
    "a descriptor that is missing": struct.pack("<2sIB", b"og", 0, 3),
}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_worker_that_sends_garbage_is_killed_and_replaced(harness: Harness, garbage: str) -> None:
    with harness.executor() as (executor, worker):
        (handle,) = executor.submit(planned_call("a"))
        worker.begin()
        worker.write(GARBAGE[garbage])
        replacement = harness.next()
        replacement.load()
        replacement.finish(replacement.begin())
        assert handle.output_ready.result(TIMEOUT_S).attempts == 2
    (note,) = [event for event in harness.events if isinstance(event, Note)]
    assert "broke the protocol" in note.text


def test_partial_message_of_one_worker_does_not_block_the_other(harness: Harness) -> None:
    with harness.pair() as (executor, stuck, worker):
        handles = [executor.submit(planned_call(id_))[0] for id_ in "ab"]
        stuck.write(frame(b"x" * 100)[:50])
        worker.finish(worker.begin())
        assert handles[1].output_ready.result(TIMEOUT_S).worker == 1
        executor.shutdown(wait=False)
        executor.shutdown()
        assert isinstance(handles[0].output_ready.exception(TIMEOUT_S), EngineError)


def test_killed_executor_fails_all_requests_and_refuses_further_calls(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        handles = [executor.submit(planned_call(id_))[0] for id_ in "abcd"]
        worker.compute(worker.begin())
        handles[0].compute_done.result(TIMEOUT_S)
        executor.shutdown(wait=False)
        executor.shutdown()
        assert [type(handle.output_ready.exception(0)) for handle in handles] == [EngineError] * 4
        assert all(handle.compute_done.done() for handle in handles)
        executor.shutdown()
        for raises in (
            lambda: executor.submit(planned_call("e")),
            lambda: executor.collective_rpc("drain"),
        ):
            with pytest.raises(EngineError, match="the executor is closed"):
                raises()


def test_shutdown_without_wait_kills_workers_without_a_lock_and_does_not_replace_them(harness: Harness) -> None:
    with harness.executor() as (executor, worker), ThreadPoolExecutor() as threads:
        (handle,) = executor.submit(planned_call("a"))
        worker.begin()
        handles = executor._pool.workers.copy()
        with executor._pool.lock:
            threads.submit(executor.shutdown, wait=False).result(TIMEOUT_S)
        executor.shutdown()
        assert executor._pool.workers == handles
        assert handles[0].process.exit_report() == "was killed by SIGKILL"
        assert isinstance(handle.output_ready.exception(0), EngineError)


def test_shutdown_lets_workers_finish_the_calls_they_were_sent(harness: Harness) -> None:
    with ThreadPoolExecutor() as threads, harness.executor() as (executor, worker):
        handles = [executor.submit(planned_call(id_))[0] for id_ in "ab"]
        first, second = worker.begin(), worker.expect(m.ExecuteModel)
        (unsent,) = executor.submit(planned_call("c"))
        closing = threads.submit(executor.shutdown)
        worker.expect(m.Shutdown)
        worker.finish(first)
        worker.start(second)
        worker.finish(second)
        worker.die("os._exit(0)")
        closing.result(TIMEOUT_S)
        assert worker.has_no_message(), "no call follows a Shutdown"
        assert [bytes(handle.output_ready.result(0).buffer) for handle in handles] == [PIXELS] * 2
        assert isinstance(unsent.output_ready.exception(0), EngineError)


def test_internal_error_ends_the_executor_and_fails_all_requests(harness: Harness) -> None:
    def observer(event: AnyEvent) -> None:
        if isinstance(event, ForwardStarted):
            raise ZeroDivisionError("a bug in an observer")

    with harness.executor(observer) as (executor, worker):
        (handle,) = executor.submit(planned_call("a"))
        worker.begin()
        raised = handle.output_ready.exception(TIMEOUT_S)
        assert isinstance(raised, EngineError)
        assert isinstance(raised.__cause__, ZeroDivisionError)
        with pytest.raises(EngineError, match="a bug in an observer"):
            executor.collective_rpc("health")


def test_output_is_delivered_although_the_observer_raises(harness: Harness) -> None:
    def observer(event: AnyEvent) -> None:
        if isinstance(event, OutputArrived):
            raise ZeroDivisionError("a bug in an observer")

    with harness.executor(observer) as (executor, worker):
        (handle,) = executor.submit(planned_call("a"))
        worker.finish(worker.begin())
        assert bytes(handle.output_ready.result(TIMEOUT_S).buffer) == PIXELS


def test_a_warning_of_a_worker_is_logged_and_observed_once(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "omni_gen"), harness.executor() as (executor, worker):
        for text in ("loading m: odd", "loading m: odd", "loading n: odd"):
            worker.send(m.Warned(text=text))
        (handle,) = executor.submit(planned_call("a"))
        worker.finish(worker.begin())
        handle.output_ready.result(TIMEOUT_S)
    assert [event.text for event in harness.events if isinstance(event, Note)] == ["loading m: odd", "loading n: odd"]
    assert caplog.text.count("loading m: odd") == 2
