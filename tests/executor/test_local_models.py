"""Calls for several models: workers finish the calls of one model before they load the next."""

import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, ModelLoadError, ModelUnavailable, WorkerDied
from omni_cli.events import ModelReady, ModelSwitched, Note
from omni_cli.executor import make_executor
from omni_cli.transport import messages as m
from tests.executor.fake_worker import LOADED, TIMEOUT_S, Harness, error
from tests.factories import planned_call

A, B, C = (ModelConfig(model=name) for name in "ABC")


def switches(harness: Harness) -> list[str]:
    return [event.model for event in harness.events if isinstance(event, ModelSwitched)]


def test_next_model_is_loaded_once_all_outputs_of_the_previous_one_have_arrived(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        (a,), (b,), (b2,) = (
            executor.submit(planned_call(id_), model=model) for id_, model in (("a", A), ("b", B), ("b2", B))
        )
        assert worker.load() == "A"
        call = worker.begin()
        worker.compute(call)
        a.compute_done.result(TIMEOUT_S)
        assert worker.has_no_message()
        worker.output(call, "a")
        assert worker.load() == "B"
        assert [request.id for request in worker.begin().requests] == ["b"]
        assert [request.id for request in worker.expect(m.ExecuteModel).requests] == ["b2"]
        a.output_ready.result(TIMEOUT_S)
        assert not b.output_ready.done()
        assert not b2.output_ready.done()
    assert switches(harness) == ["B"]
    assert len([event for event in harness.events if isinstance(event, ModelReady)]) == 2


def test_loaded_model_is_not_loaded_again_for_its_first_call(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        executor.load(A)
        executor.submit(planned_call("a"), model=A)
        assert worker.load() == "A"
        assert [request.id for request in worker.begin().requests] == ["a"]
    assert switches(harness) == []


def test_all_workers_finish_before_any_of_them_loads_the_next_model(harness: Harness) -> None:
    with harness.unloaded(workers=2) as (executor, first):
        workers = [first, harness.next()]
        loading = executor.load(A)
        assert [worker.load() for worker in workers] == ["A", "A"]
        loading.loaded.result(TIMEOUT_S)
        handles = [executor.submit(planned_call(id_), model=model)[0] for id_, model in (("a", A), ("a2", A), ("b", B))]
        calls = [worker.begin() for worker in workers]
        workers[0].finish(calls[0])
        next(h for h in handles if h.planned.id == calls[0].requests[0].id).output_ready.result(TIMEOUT_S)
        assert workers[0].has_no_message()
        workers[1].finish(calls[1])
        assert [worker.load() for worker in workers] == ["B", "B"]


def test_worker_that_dies_after_a_switch_is_replaced_with_the_current_model(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        executor.submit(planned_call("a"), model=A)
        (b,) = executor.submit(planned_call("b"), model=B)
        worker.load()
        worker.finish(worker.begin())
        assert worker.load() == "B"
        worker.begin()
        worker.die()
        replacement = harness.next()
        assert replacement.load() == "B"
        replacement.finish(replacement.begin())
        assert b.output_ready.result(TIMEOUT_S).attempts == 2
    assert switches(harness) == ["B"]


def test_worker_that_dies_during_a_switch_is_replaced_with_the_new_model(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        executor.submit(planned_call("a"), model=A)
        (b,) = executor.submit(planned_call("b"), model=B)
        worker.load()
        worker.finish(worker.begin())
        worker.expect(m.LoadModel)
        worker.die()
        replacement = harness.next()
        assert replacement.load() == "B"
        replacement.finish(replacement.begin())
        assert b.output_ready.result(TIMEOUT_S).attempts == 1


def test_worker_that_dies_before_a_switch_retries_the_old_models_call_first(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        (a,) = executor.submit(planned_call("a"), model=A)
        executor.submit(planned_call("b"), model=B)
        worker.load()
        worker.begin()
        worker.die()
        replacement = harness.next()
        assert replacement.load() == "A"
        replacement.finish(replacement.begin())
        assert a.output_ready.result(TIMEOUT_S).attempts == 2
        assert replacement.load() == "B"


def test_replacement_loads_only_the_next_model_if_the_old_one_has_no_call_left(
    harness: Harness,
) -> None:
    with harness.unloaded() as (executor, worker):
        (a,) = executor.submit(planned_call("a"), model=A)
        executor.submit(planned_call("b"), model=B)
        worker.load()
        worker.begin()
        worker.die()
        replacement = harness.next()
        replacement.load()
        replacement.begin()
        replacement.die()
        assert a.output_ready.exception(TIMEOUT_S) is not None
        third = harness.next()
        assert third.load() == "B"
        assert [request.id for request in third.begin().requests] == ["b"]


def test_later_model_that_cannot_be_loaded_fails_its_requests_only(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        handles = {
            id_: executor.submit(planned_call(id_), model=model)[0] for id_, model in (("a", A), ("b", B), ("c", C))
        }
        worker.load()
        worker.finish(worker.begin())
        worker.send(m.RpcResult(rpc_id=worker.expect(m.LoadModel).rpc_id, error=error("x", "a shard is torn")))
        raised = handles["b"].output_ready.exception(TIMEOUT_S)
        assert isinstance(raised, ModelUnavailable)
        assert "a shard is torn" in str(raised)
        assert worker.load() == "C"
        worker.finish(worker.begin())
        handles["c"].output_ready.result(TIMEOUT_S)
        (late,) = executor.submit(planned_call("late"), model=B)
        assert isinstance(late.output_ready.exception(TIMEOUT_S), ModelUnavailable)
        (again,) = executor.submit(planned_call("again"), model=A)
        assert worker.load() == "A"
        worker.finish(worker.begin())
        again.output_ready.result(TIMEOUT_S)
    (note,) = [event.text for event in harness.events if isinstance(event, Note)]
    assert note.startswith("the requests for B fail: ")


def test_first_model_that_cannot_be_loaded_ends_the_executor(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        (a,), (b,) = (executor.submit(planned_call(id_), model=model) for id_, model in (("a", A), ("b", B)))
        worker.send(m.RpcResult(rpc_id=worker.expect(m.LoadModel).rpc_id, error=error("x", "not there")))
        for handle in (a, b):
            assert isinstance(handle.output_ready.exception(TIMEOUT_S), ModelLoadError)


def test_cancelled_request_does_not_delay_the_switch(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        (a,) = executor.submit(planned_call("a"), model=A)
        executor.submit(planned_call("b"), model=B)
        worker.load()
        worker.compute(worker.begin())
        a.compute_done.result(TIMEOUT_S)
        executor.cancel(a)
        assert worker.load() == "B"


def test_worker_without_an_output_is_replaced_before_the_switch(harness: Harness) -> None:
    with harness.unloaded(output_timeout=5) as (executor, worker):
        (handle,) = executor.submit(planned_call("a"), model=A)
        executor.submit(planned_call("b"), model=B)
        worker.load()
        worker.compute(worker.begin())
        handle.compute_done.result(TIMEOUT_S)
        harness.advance(5, worker)
        replacement = harness.next()
        assert replacement.load() == "A"
        replacement.finish(replacement.begin())
        handle.output_ready.result(TIMEOUT_S).release()
        assert replacement.load() == "B"


def test_identify_loads_nothing(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        known, unknown, refused = (executor.identify(model) for model in (A, B, C))
        asked = [worker.expect(m.Identify) for _ in "ABC"]
        assert [ask.model for ask in asked] == [A, B, C]
        worker.send(m.RpcResult(rpc_id=asked[1].rpc_id))
        worker.send(m.RpcResult(rpc_id=asked[2].rpc_id, error=error("x", "only pickles")))
        worker.send(m.RpcResult(rpc_id=asked[0].rpc_id, loaded=LOADED))
        assert (known.result(TIMEOUT_S), unknown.result(TIMEOUT_S)) == (LOADED, None)
        with pytest.raises(ModelLoadError, match="only pickles"):
            refused.result(TIMEOUT_S)
        assert worker.has_no_message()
    assert harness.events == []


def test_identify_raises_if_the_worker_dies(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        asked = executor.identify(A)
        worker.expect(m.Identify)
        worker.die()
        with pytest.raises(WorkerDied, match="SIGKILL"):
            asked.result(TIMEOUT_S)
        with pytest.raises(EngineError):
            executor.identify(B).result(TIMEOUT_S)


def test_inline_executor_switches_and_refuses_models_alike() -> None:
    events: list[object] = []
    with make_executor(
        EngineConfig(executor="inline", runner="tests.executor.runners:FaultyRunner"), events.append
    ) as executor:
        nowhere = ModelConfig(model="nowhere")
        facts = executor.identify(B).result(0)
        assert facts is not None
        assert facts.info.id == "B"
        order = [A, A, B, nowhere, nowhere, A]
        handles = [executor.submit(planned_call(str(n)), model=model)[0] for n, model in enumerate(order)]
        errors = [handle.output_ready.exception(0) for handle in handles]
        assert [type(error) for error in errors] == [
            type(None), type(None), type(None), ModelUnavailable, ModelUnavailable, type(None),
        ]  # fmt: skip
        assert [event.model for event in events if isinstance(event, ModelSwitched)] == ["B", "nowhere", "A"]


def test_inline_executor_raises_if_its_first_model_cannot_be_loaded() -> None:
    with (
        make_executor(
            EngineConfig(executor="inline", runner="tests.executor.runners:FaultyRunner"), lambda _: None
        ) as executor,
        pytest.raises(ModelLoadError, match="nowhere is not there"),
    ):
        executor.submit(planned_call("a"), model=ModelConfig(model="nowhere"))
