"""Workers that are added while a run goes on."""

import pytest

from omni_cli.config import ModelConfig
from omni_cli.events import Note
from omni_cli.transport import messages as m
from tests.executor.fake_worker import LOADED, TIMEOUT_S, Harness
from tests.factories import planned_call

FAILURE = m.RemoteError(kind="failed", message="cuda:1 is left alone", traceback="")


def test_an_added_worker_loads_the_model_and_takes_calls(harness: Harness) -> None:
    with harness.executor() as (executor, first):
        scaled = executor.scale(2)
        second = harness.next()
        assert not scaled.done()
        second.load()
        scaled.result(TIMEOUT_S)
        for name in "ab":
            executor.submit(planned_call(name))
        first.finish(first.begin())
        second.finish(second.begin())


def test_added_before_the_model_is_loaded_a_worker_delays_nothing(harness: Harness) -> None:
    with harness.unloaded() as (executor, first):
        loaded = executor.load(ModelConfig()).loaded
        executor.scale(2)
        harness.next().expect(m.LoadModel)
        first.load()
        assert loaded.result(TIMEOUT_S) == LOADED
        (handle,) = executor.submit(planned_call("a"))
        first.finish(first.begin())
        handle.output_ready.result(TIMEOUT_S)


def test_the_same_number_again_starts_nothing(harness: Harness) -> None:
    with harness.executor() as (executor, first):
        executor.scale(1).result(TIMEOUT_S)
        assert len(executor._pool.workers) == 1
        assert first.has_no_message()


def test_the_number_of_threads_reaches_every_worker_before_the_next_call(harness: Harness) -> None:
    with harness.executor() as (executor, first):
        executor.scale(2, threads=1)
        assert harness.next().expect(m.LoadModel).engine.threads == 1
        executor.submit(planned_call("a"))
        assert first.expect(m.SetThreads).threads == 1
        first.finish(first.begin())


@pytest.mark.parametrize("how", ["refuses", "dies"])
def test_an_added_worker_that_cannot_load_is_given_up_and_the_run_goes_on(harness: Harness, how: str) -> None:
    with harness.executor() as (executor, first):
        scaled = executor.scale(2)
        second = harness.next()
        load = second.expect(m.LoadModel)
        if how == "refuses":
            second.send(m.RpcResult(rpc_id=load.rpc_id, error=FAILURE))
        else:
            second.close()
        scaled.result(TIMEOUT_S)
        (handle,) = executor.submit(planned_call("a"))
        first.finish(first.begin())
        handle.output_ready.result(TIMEOUT_S)
        notes = [event.text for event in harness.events if isinstance(event, Note)]
        assert len(notes) == 1
        assert notes[0].startswith("worker 1 is given up: ")
        assert len(executor._pool.active) == 1
