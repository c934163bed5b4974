"""Deaths: noticed at once, told with their cause, and what the worker held is done by the next one or given up."""

import logging
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest

from omni_cli.errors import EngineError, RequestError, WorkerDied
from omni_cli.events import AnyEvent, ForwardStarted, Note, OutputReady
from omni_cli.executor.faults import PoisonousRequest
from omni_cli.transport import messages as m
from tests.executor.puppet import PATIENCE_S, PIXELS, Stage, error, frame, planned

SIGKILL = "os.kill(os.getpid(), signal.SIGKILL)"

DEATHS = {
    SIGKILL: "was killed by SIGKILL",
    "os.kill(os.getpid(), signal.SIGSEGV)": "was killed by SIGSEGV",
    "os.kill(os.getpid(), signal.SIGTERM)": "was killed by SIGTERM",
    "os._exit(7)": "exited with code 7",
    "os._exit(0)": "exited with code 0",
}


@pytest.mark.parametrize("code", DEATHS)
def test_a_death_is_told_with_its_cause_and_the_log_and_its_requests_are_done_by_the_next_worker(
    stage: Stage, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "omni_gen"), stage.executor() as (executor, worker):
        handles = [executor.submit(planned(id_))[0] for id_ in "abc"]
        worker.begin()
        worker.do("sys.stderr.write('last words\\n'); sys.stderr.flush()")
        worker.die(code)
        heir = stage.next()
        heir.load()
        for id_ in "abc":
            call = heir.begin()
            assert [request.id for request in call.requests] == [id_]
            heir.finish(call)
        outputs = [handle.output_ready.result(PATIENCE_S) for handle in handles]
        assert [output.attempts for output in outputs] == [2, 1, 1]
    (note,) = [event for event in stage.events if isinstance(event, Note)]
    assert DEATHS[code] in note.text
    assert "\n" not in note.text
    assert "last words" in caplog.text


def test_the_end_of_the_channel_is_a_death_even_if_the_process_lives_on(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        (handle,) = executor.submit(planned("a"))
        worker.begin()
        worker.channel.close()
        heir = stage.next()
        heir.load()
        heir.finish(heir.begin())
        assert handle.output_ready.result(PATIENCE_S).attempts == 2


def test_what_was_sent_before_a_death_counts(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        first, second = (executor.submit(planned(id_))[0] for id_ in "ab")
        call = worker.begin()
        worker.finish(call)
        worker.die(SIGKILL)
        assert bytes(first.output_ready.result(PATIENCE_S).buffer) == PIXELS
        heir = stage.next()
        heir.load()
        call = heir.begin()
        assert [request.id for request in call.requests] == ["b"]
        heir.finish(call)
        second.output_ready.result(PATIENCE_S)


def test_a_computed_request_whose_output_was_lost_is_computed_again(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        (handle,) = executor.submit(planned("a"))
        worker.compute(worker.begin())
        handle.compute_done.result(PATIENCE_S)
        worker.die(SIGKILL)
        heir = stage.next()
        heir.load()
        heir.finish(heir.begin())
        assert handle.output_ready.result(PATIENCE_S).attempts == 2


def test_a_failure_tells_how_often_its_forward_was_begun(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        (raising,), (packing,) = executor.submit(planned("a")), executor.submit(planned("b"))
        worker.begin()
        worker.die(SIGKILL)
        heir = stage.next()
        heir.load()
        heir.compute(heir.begin(), failure=error())
        call = heir.begin()
        heir.compute(call)
        heir.output(call, "b", failure=error("non_finite_output"))
        for handle, kind, attempts in ((raising, "forward_failed", 2), (packing, "non_finite_output", 1)):
            raised = handle.output_ready.exception(PATIENCE_S)
            assert isinstance(raised, RequestError)
            assert (raised.kind, raised.attempts) == (kind, attempts)


def test_a_batch_is_split_after_a_death_and_the_request_that_runs_in_two_fails_alone(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        batch = executor.submit(planned("a", "poison", "c"))
        (last,) = executor.submit(planned("d"))
        worker.begin()
        worker.die("os.kill(os.getpid(), signal.SIGSEGV)")
        heir = stage.next()
        heir.load()
        heir.finish(heir.begin())
        assert [request.id for request in heir.begin().requests] == ["poison"]
        heir.do("sys.stderr.write('last words'); sys.stderr.flush()")
        heir.die("os.kill(os.getpid(), signal.SIGSEGV)")
        for future in (batch[1].compute_done, batch[1].output_ready):
            raised = future.exception(PATIENCE_S)
            assert isinstance(raised, PoisonousRequest)
            assert (raised.kind, raised.attempts) == ("worker_died", 2)
            assert "given up after 2 attempts" in str(raised)
            assert "SIGSEGV" in str(raised)
            assert "last words" in str(raised)
        third = stage.next()
        third.load()
        for id_ in "cd":
            call = third.begin()
            assert [request.id for request in call.requests] == [id_]
            third.finish(call)
        attempts = [h.output_ready.result(PATIENCE_S).attempts for h in (batch[0], batch[2], last)]
        assert attempts == [2, 2, 1]


def test_deaths_in_a_row_end_everything_with_the_cause(stage: Stage) -> None:
    with stage.executor(max_restarts=1) as (executor, worker):
        handles = [executor.submit(planned(id_))[0] for id_ in "abc"]
        worker.die(SIGKILL)
        heir = stage.next()
        heir.load()
        heir.begin()
        heir.do("print('last words', flush=True)")
        heir.die("os._exit(7)")
        for handle in handles:
            for future in (handle.compute_done, handle.output_ready):
                assert isinstance(future.exception(PATIENCE_S), WorkerDied)
        for raises in (
            executor.check_health,
            lambda: executor.submit(planned("d")),
            lambda: executor.collective_rpc("health"),
        ):
            with pytest.raises(
                WorkerDied, match=r"worker 0 \(pid \d+\) exited with code 7; its log ends with:\nlast words"
            ):
                raises()


def test_an_output_in_between_forgives_earlier_deaths(stage: Stage) -> None:
    with stage.executor(max_restarts=1) as (executor, worker):
        handles = [executor.submit(planned(id_))[0] for id_ in "abc"]
        for handle in handles:
            worker.finish(worker.begin())
            handle.output_ready.result(PATIENCE_S)
            worker.die(SIGKILL)
            worker = stage.next()
            worker.load()
        executor.check_health()


def test_what_the_dead_held_goes_to_the_worker_that_is_there(stage: Stage) -> None:
    with stage.pair() as (executor, first, second):
        handles = [executor.submit(planned(id_))[0] for id_ in "ab"]
        lost, other = first.begin(), second.begin()
        first.die(SIGKILL)
        again = second.expect(m.ExecuteModel)
        assert again.requests == lost.requests
        second.finish(other)
        second.start(again)
        second.finish(again)
        assert [handle.output_ready.result(PATIENCE_S).worker for handle in handles] == [1, 1]


GARBAGE = {
    "bytes": b"Segmentation fault (core dumped)\n",
    "not msgpack": frame(b"\xc1\xc1"),
    "unknown message": frame(b"\x81\xa4type\xa5Greet"),
    "a message to a worker": frame(m.encode(m.Shutdown())),
    "an answer nobody asked for": frame(m.encode(m.RpcResult(rpc_id=999))),
    "a descriptor that is missing": struct.pack("<2sIB", b"og", 0, 3),
}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_worker_that_sends_garbage_is_killed_and_replaced(stage: Stage, garbage: str) -> None:
    with stage.executor() as (executor, worker):
        (handle,) = executor.submit(planned("a"))
        worker.begin()
        worker.write(GARBAGE[garbage])
        heir = stage.next()
        heir.load()
        heir.finish(heir.begin())
        assert handle.output_ready.result(PATIENCE_S).attempts == 2
    (note,) = [event for event in stage.events if isinstance(event, Note)]
    assert "sent something it must not" in note.text


def test_half_a_message_from_one_worker_does_not_hold_up_the_other(stage: Stage) -> None:
    with stage.pair() as (executor, stuck, worker):
        handles = [executor.submit(planned(id_))[0] for id_ in "ab"]
        stuck.write(frame(b"x" * 100)[:50])
        worker.finish(worker.begin())
        assert handles[1].output_ready.result(PATIENCE_S).worker == 1
        executor.kill()
        assert isinstance(handles[0].output_ready.exception(PATIENCE_S), EngineError)


def test_a_killed_executor_fails_what_waits_and_takes_nothing_more(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        handles = [executor.submit(planned(id_))[0] for id_ in "abcd"]
        worker.compute(worker.begin())
        handles[0].compute_done.result(PATIENCE_S)
        executor.kill()
        assert [type(handle.output_ready.exception(0)) for handle in handles] == [EngineError] * 4
        assert all(handle.compute_done.done() for handle in handles)
        executor.close()
        for raises in (
            executor.check_health,
            lambda: executor.submit(planned("e")),
            lambda: executor.collective_rpc("drain"),
        ):
            with pytest.raises(EngineError, match="the executor is closed"):
                raises()


def test_an_orderly_close_tells_the_workers_and_takes_in_their_last_outputs(stage: Stage) -> None:
    with ThreadPoolExecutor() as threads, stage.executor() as (executor, worker):
        handles = [executor.submit(planned(id_))[0] for id_ in "ab"]
        first, second = worker.begin(), worker.expect(m.ExecuteModel)
        (unsent,) = executor.submit(planned("c"))
        closing = threads.submit(executor.close)
        worker.expect(m.Shutdown)
        worker.finish(first)
        worker.start(second)
        worker.finish(second)
        worker.die("os._exit(0)")
        closing.result(PATIENCE_S)
        assert worker.hears_nothing(), "no call follows a Shutdown"
        assert [bytes(handle.output_ready.result(0).buffer) for handle in handles] == [PIXELS] * 2
        assert isinstance(unsent.output_ready.exception(0), EngineError)


def test_a_fault_of_our_own_ends_the_executor_and_leaves_nobody_waiting(stage: Stage) -> None:
    def observer(event: AnyEvent) -> None:
        if isinstance(event, ForwardStarted):
            raise ZeroDivisionError("a bug in an observer")

    with stage.executor(observer) as (executor, worker):
        (handle,) = executor.submit(planned("a"))
        worker.begin()
        raised = handle.output_ready.exception(PATIENCE_S)
        assert isinstance(raised, EngineError)
        assert isinstance(raised.__cause__, ZeroDivisionError)
        with pytest.raises(EngineError, match="a bug in an observer"):
            executor.check_health()


def test_a_fault_while_an_output_is_delivered_does_not_lose_it(stage: Stage) -> None:
    def observer(event: AnyEvent) -> None:
        if isinstance(event, OutputReady):
            raise ZeroDivisionError("a bug in an observer")

    with stage.executor(observer) as (executor, worker):
        (handle,) = executor.submit(planned("a"))
        worker.finish(worker.begin())
        assert bytes(handle.output_ready.result(PATIENCE_S).buffer) == PIXELS
