"""Calls for several models: what is in hand is finished, then every worker loads the next model, whoever dies or fails meanwhile."""

import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, ModelLoadError, ModelUnavailable, WorkerDied
from omni_cli.events import ModelReady, ModelSwitched, Note
from omni_cli.executor import make_executor
from omni_cli.executor.local import LocalExecutor
from omni_cli.transport import messages as m
from tests.executor.puppet import LOADED, PATIENCE_S, Puppet, Stage, error, planned

A, B, C = (ModelConfig(model=name) for name in "ABC")
SIGKILL = "os.kill(os.getpid(), signal.SIGKILL)"


def loads(worker: Puppet) -> str:
    """Answer the LoadModel that must come next; the model that it names."""
    load = worker.expect(m.LoadModel)
    worker.send(m.RpcResult(rpc_id=load.rpc_id, loaded=LOADED))
    return load.model.model


def switches(stage: Stage) -> list[str]:
    return [event.model for event in stage.events if isinstance(event, ModelSwitched)]


def test_a_model_is_loaded_with_its_first_call_and_the_next_when_every_output_is_there(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        (a,), (b,), (b2,) = (
            executor.submit(planned(id_), model=model) for id_, model in (("a", A), ("b", B), ("b2", B))
        )
        assert loads(worker) == "A"
        call = worker.begin()
        worker.compute(call)
        a.compute_done.result(PATIENCE_S)
        assert worker.hears_nothing()
        worker.output(call, "a")
        assert loads(worker) == "B"
        assert [request.id for request in worker.begin().requests] == ["b"]
        assert [request.id for request in worker.expect(m.ExecuteModel).requests] == ["b2"]
        a.output_ready.result(PATIENCE_S)
        assert not b.output_ready.done()
        assert not b2.output_ready.done()
    assert switches(stage) == ["B"]
    assert len([event for event in stage.events if isinstance(event, ModelReady)]) == 2


def test_a_model_that_was_loaded_beforehand_is_not_loaded_again(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        executor.load(A)
        executor.submit(planned("a"), model=A)
        assert loads(worker) == "A"
        assert [request.id for request in worker.begin().requests] == ["a"]
    assert switches(stage) == []


def test_all_workers_finish_before_any_switches(stage: Stage) -> None:
    executor = LocalExecutor(EngineConfig(workers=2), stage.observe, command=stage.command)
    try:
        workers = [stage.next(), stage.next()]
        loading = executor.load(A)
        assert [loads(worker) for worker in workers] == ["A", "A"]
        loading.loaded.result(PATIENCE_S)
        handles = [executor.submit(planned(id_), model=model)[0] for id_, model in (("a", A), ("a2", A), ("b", B))]
        calls = [worker.begin() for worker in workers]
        workers[0].finish(calls[0])
        next(h for h in handles if h.planned.id == calls[0].requests[0].id).output_ready.result(PATIENCE_S)
        assert workers[0].hears_nothing()
        workers[1].finish(calls[1])
        assert [loads(worker) for worker in workers] == ["B", "B"]
    finally:
        executor.kill()


def test_a_worker_that_dies_after_a_switch_is_replaced_with_the_model_of_the_moment(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        executor.submit(planned("a"), model=A)
        (b,) = executor.submit(planned("b"), model=B)
        loads(worker)
        worker.finish(worker.begin())
        assert loads(worker) == "B"
        worker.begin()
        worker.die(SIGKILL)
        heir = stage.next()
        assert loads(heir) == "B"
        heir.finish(heir.begin())
        assert b.output_ready.result(PATIENCE_S).attempts == 2
    assert switches(stage) == ["B"]


def test_a_death_during_a_switch_loads_the_new_model_in_the_heir(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        executor.submit(planned("a"), model=A)
        (b,) = executor.submit(planned("b"), model=B)
        loads(worker)
        worker.finish(worker.begin())
        worker.expect(m.LoadModel)
        worker.die(SIGKILL)
        heir = stage.next()
        assert loads(heir) == "B"
        heir.finish(heir.begin())
        assert b.output_ready.result(PATIENCE_S).attempts == 1


def test_a_death_before_the_switch_runs_the_old_models_call_again_first(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        (a,) = executor.submit(planned("a"), model=A)
        executor.submit(planned("b"), model=B)
        loads(worker)
        worker.begin()
        worker.die(SIGKILL)
        heir = stage.next()
        assert loads(heir) == "A"
        heir.finish(heir.begin())
        assert a.output_ready.result(PATIENCE_S).attempts == 2
        assert loads(heir) == "B"


def test_the_heir_of_a_worker_that_died_of_a_models_last_call_loads_only_the_next_model(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        (a,) = executor.submit(planned("a"), model=A)
        executor.submit(planned("b"), model=B)
        loads(worker)
        worker.begin()
        worker.die(SIGKILL)
        heir = stage.next()
        loads(heir)
        heir.begin()
        heir.die(SIGKILL)
        assert a.output_ready.exception(PATIENCE_S) is not None
        third = stage.next()
        assert loads(third) == "B"
        assert [request.id for request in third.begin().requests] == ["b"]


def test_a_later_model_that_cannot_be_loaded_fails_its_requests_and_the_others_go_on(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        handles = {id_: executor.submit(planned(id_), model=model)[0] for id_, model in (("a", A), ("b", B), ("c", C))}
        loads(worker)
        worker.finish(worker.begin())
        worker.send(m.RpcResult(rpc_id=worker.expect(m.LoadModel).rpc_id, error=error("x", "a shard is torn")))
        refused = handles["b"].output_ready.exception(PATIENCE_S)
        assert isinstance(refused, ModelUnavailable)
        assert "a shard is torn" in str(refused)
        assert loads(worker) == "C"
        worker.finish(worker.begin())
        handles["c"].output_ready.result(PATIENCE_S)
        (late,) = executor.submit(planned("late"), model=B)
        assert isinstance(late.output_ready.exception(PATIENCE_S), ModelUnavailable)
        (again,) = executor.submit(planned("again"), model=A)
        assert loads(worker) == "A"
        worker.finish(worker.begin())
        again.output_ready.result(PATIENCE_S)
    (note,) = [event.text for event in stage.events if isinstance(event, Note)]
    assert note.startswith("the requests for B fail: ")


def test_the_first_model_that_cannot_be_loaded_ends_the_run(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        (a,), (b,) = (executor.submit(planned(id_), model=model) for id_, model in (("a", A), ("b", B)))
        worker.send(m.RpcResult(rpc_id=worker.expect(m.LoadModel).rpc_id, error=error("x", "not there")))
        for handle in (a, b):
            assert isinstance(handle.output_ready.exception(PATIENCE_S), ModelLoadError)


def test_a_request_that_is_given_up_does_not_hold_up_the_switch(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        (a,) = executor.submit(planned("a"), model=A)
        executor.submit(planned("b"), model=B)
        loads(worker)
        worker.compute(worker.begin())
        a.compute_done.result(PATIENCE_S)
        executor.cancel(a)
        assert loads(worker) == "B"


def test_an_output_that_never_comes_does_not_hold_up_the_switch(stage: Stage) -> None:
    executor = LocalExecutor(EngineConfig(output_timeout=0.05), stage.observe, command=stage.command)
    try:
        worker = stage.next()
        executor.submit(planned("a"), model=A)
        executor.submit(planned("b"), model=B)
        loads(worker)
        worker.compute(worker.begin())
        assert loads(worker) == "B"
    finally:
        executor.kill()


def test_to_identify_loads_nothing(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        known, unknown, refused = (executor.identify(model) for model in (A, B, C))
        asked = [worker.expect(m.Identify) for _ in "ABC"]
        assert [ask.model for ask in asked] == [A, B, C]
        worker.send(m.RpcResult(rpc_id=asked[1].rpc_id))
        worker.send(m.RpcResult(rpc_id=asked[2].rpc_id, error=error("x", "only pickles")))
        worker.send(m.RpcResult(rpc_id=asked[0].rpc_id, loaded=LOADED))
        assert (known.result(PATIENCE_S), unknown.result(PATIENCE_S)) == (LOADED, None)
        with pytest.raises(ModelLoadError, match="only pickles"):
            refused.result(PATIENCE_S)
        assert worker.hears_nothing()
    assert stage.events == []


def test_a_worker_that_dies_when_it_is_asked_says_so(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        asked = executor.identify(A)
        worker.expect(m.Identify)
        worker.die(SIGKILL)
        with pytest.raises(WorkerDied, match="SIGKILL"):
            asked.result(PATIENCE_S)
        with pytest.raises(EngineError):
            executor.identify(B).result(PATIENCE_S)


def test_in_this_process_models_are_switched_and_refused_alike() -> None:
    events: list[object] = []
    with make_executor(
        EngineConfig(executor="inline", runner="tests.executor.runners:Broken"), events.append
    ) as executor:
        nowhere = ModelConfig(model="nowhere")
        found = executor.identify(B).result(0)
        assert found is not None
        assert found.info.id == "B"
        order = [A, A, B, nowhere, nowhere, A]
        handles = [executor.submit(planned(str(n)), model=model)[0] for n, model in enumerate(order)]
        errors = [handle.output_ready.exception(0) for handle in handles]
        assert [type(found) for found in errors] == [
            type(None), type(None), type(None), ModelUnavailable, ModelUnavailable, type(None),
        ]  # fmt: skip
        assert [event.model for event in events if isinstance(event, ModelSwitched)] == ["B", "nowhere", "A"]


def test_in_this_process_too_the_first_model_that_cannot_be_loaded_ends_the_run() -> None:
    with (
        make_executor(
            EngineConfig(executor="inline", runner="tests.executor.runners:Broken"), lambda _: None
        ) as executor,
        pytest.raises(ModelLoadError, match="nowhere is not there"),
    ):
        executor.submit(planned("a"), model=ModelConfig(model="nowhere"))
