"""Worker processes start, load, answer RPCs and end; what goes wrong is reported with its cause."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count

import msgspec
import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, ModelLoadError, ProtocolError, UsageError, WorkerDied
from omni_cli.executor.local import LocalExecutor
from omni_cli.executor.worker_pool import PendingRpcs
from omni_cli.transport import messages as m
from tests.executor.fake_worker import LOADED, TIMEOUT_S, Harness, error
from tests.factories import planned_call


def test_worker_that_cannot_start_is_reported_with_its_log(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        loading = executor.load(ModelConfig())
        worker.do("sys.stderr.write('ImportError: libcudart.so.12'); sys.stderr.flush()")
        worker.die("os._exit(1)")
        for future in (loading.identified, loading.loaded):
            with pytest.raises(WorkerDied, match=r"exited with code 1; its log ends with:\nImportError: libcudart"):
                future.result(TIMEOUT_S)


def test_load_reports_a_worker_that_died_before(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        worker.die("os._exit(1)")
        with pytest.raises(WorkerDied, match="exited with code 1; its log is empty"):
            executor.load(ModelConfig()).loaded.result(TIMEOUT_S)


@pytest.mark.parametrize(("kind", "raised"), [("forward_failed", ModelLoadError), ("usage", UsageError)])
def test_model_that_cannot_be_loaded_raises_with_the_remote_traceback(
    harness: Harness, kind: str, raised: type[Exception]
) -> None:
    with harness.unloaded() as (executor, worker):
        loading = executor.load(ModelConfig())
        worker.send(m.RpcResult(rpc_id=worker.expect(m.LoadModel).rpc_id, error=error(kind, "no such model")))
        with pytest.raises(raised, match="no such model") as caught:
            loading.loaded.result(TIMEOUT_S)
        assert "Traceback of the worker" in str(caught.value.__cause__)
        with pytest.raises(raised):
            executor.submit(planned_call("a"))


def test_model_may_be_identified_before_it_is_loaded_and_requests_wait_for_it(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        loading = executor.load(ModelConfig())
        load = worker.expect(m.LoadModel)
        worker.send(m.Identified(rpc_id=load.rpc_id, loaded=LOADED))
        assert loading.identified.result(TIMEOUT_S) == LOADED
        assert not loading.loaded.done()
        (handle,) = executor.submit(planned_call("a"))
        assert worker.has_no_message()
        worker.send(m.RpcResult(rpc_id=load.rpc_id, loaded=LOADED))
        assert loading.loaded.result(TIMEOUT_S) == LOADED
        worker.finish(worker.begin())
        handle.output_ready.result(TIMEOUT_S)


def test_loaded_model_that_differs_from_the_identified_one_ends_the_executor(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        loading = executor.load(ModelConfig())
        load = worker.expect(m.LoadModel)
        worker.send(m.Identified(rpc_id=load.rpc_id, loaded=LOADED))
        (handle,) = executor.submit(planned_call("a"))
        other = msgspec.structs.replace(LOADED, device="cuda:0", versions={"torch": "0"})
        worker.send(m.RpcResult(rpc_id=load.rpc_id, loaded=other))
        for future in (loading.loaded, handle.output_ready):
            with pytest.raises(EngineError, match="loaded another model than the one it identified"):
                future.result(TIMEOUT_S)
        assert worker.has_no_message()


@pytest.mark.parametrize("message", ["Identified", "RpcResult"])
def test_a_worker_that_reports_other_facts_than_expected_ends_the_executor_and_is_heard(
    harness: Harness, message: str
) -> None:
    learned: list[m.Loaded] = []
    with harness.unloaded() as (executor, worker):
        executor._on_facts = lambda model, facts: learned.append(facts)
        executor.expect(ModelConfig(), LOADED)
        loading = executor.load(ModelConfig())
        assert loading.identified.result(0) == LOADED
        load = worker.expect(m.LoadModel)
        other = msgspec.structs.replace(LOADED, info=msgspec.structs.replace(LOADED.info, dtype="bfloat16"))
        worker.send(getattr(m, message)(rpc_id=load.rpc_id, loaded=other))
        reason = r'dtype: "float32" → "bfloat16"\): its files, .* run the same command again'
        with pytest.raises(EngineError, match=reason):
            loading.loaded.result(TIMEOUT_S)
    assert learned == [other]


def test_workers_may_load_the_model_on_different_devices(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        loading = executor.load(ModelConfig())
        load = worker.expect(m.LoadModel)
        worker.send(m.Identified(rpc_id=load.rpc_id, loaded=LOADED))
        elsewhere = msgspec.structs.replace(LOADED, device="cuda:1")
        worker.send(m.RpcResult(rpc_id=load.rpc_id, loaded=elsewhere))
        assert loading.loaded.result(TIMEOUT_S) == elsewhere


def test_shutdown_does_not_wait_for_a_model_that_is_being_loaded(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        loading = executor.load(ModelConfig())
        worker.expect(m.LoadModel)
        executor.shutdown()
        assert isinstance(loading.loaded.exception(0), EngineError)


def test_program_that_does_not_exist_is_an_engine_error() -> None:
    with pytest.raises(EngineError, match="worker 0 cannot be started"):
        LocalExecutor(EngineConfig(), lambda event: None, command=("/nowhere/python",))


def test_rpc_answers_are_in_worker_order(harness: Harness) -> None:
    with ThreadPoolExecutor() as threads, harness.pair() as (executor, first, second):
        answers = threads.submit(executor.collective_rpc, "drain")
        for worker in (second, first):
            worker.send(m.RpcResult(rpc_id=worker.expect(m.Rpc).rpc_id, drained=worker is second))
        assert answers.result(TIMEOUT_S) == [False, True]


def test_failed_rpc_raises_with_the_remote_traceback(harness: Harness) -> None:
    with ThreadPoolExecutor() as threads, harness.executor() as (executor, worker):
        answers = threads.submit(executor.collective_rpc, "sleep")
        rpc = worker.expect(m.Rpc)
        assert rpc.method == "sleep"
        worker.send(m.RpcResult(rpc_id=rpc.rpc_id, drained=False, error=error("x", "did not drain")))
        with pytest.raises(EngineError, match="sleep failed: did not drain") as caught:
            answers.result(TIMEOUT_S)
        assert "Traceback of the worker" in str(caught.value.__cause__)


def test_rpc_to_a_worker_that_dies_raises(harness: Harness) -> None:
    with ThreadPoolExecutor() as threads, harness.executor() as (executor, worker):
        answers = threads.submit(executor.collective_rpc, "health")
        worker.expect(m.Rpc)
        worker.die()
        with pytest.raises(WorkerDied, match="ended before it answered"):
            answers.result(TIMEOUT_S)
        harness.next().load()


def test_pending_rpcs_resolve_in_any_order() -> None:
    rpcs = PendingRpcs(count(1).__next__)
    (first_id, first), (second_id, second) = rpcs.add(0), rpcs.add(1)
    for rpc_id in (second_id, first_id):
        rpcs.resolve(m.RpcResult(rpc_id=rpc_id, drained=rpc_id == first_id))
    assert (first.result(0).drained, second.result(0).drained) == (True, False)


def test_second_result_of_an_rpc_is_a_protocol_error() -> None:
    rpcs = PendingRpcs(count(1).__next__)
    rpc_id, _ = rpcs.add(0)
    rpcs.resolve(m.RpcResult(rpc_id=rpc_id))
    with pytest.raises(ProtocolError, match=f"rpc {rpc_id}, which is not pending"):
        rpcs.resolve(m.RpcResult(rpc_id=rpc_id))


def test_death_of_a_worker_fails_its_rpcs_only() -> None:
    rpcs = PendingRpcs(count(1).__next__)
    (_, failed), (rpc_id, other) = rpcs.add(0), rpcs.add(1)
    rpcs.fail(0, WorkerDied("gone"))
    assert str(failed.exception(0)) == "gone"
    rpcs.resolve(m.RpcResult(rpc_id=rpc_id))
    assert other.result(0).rpc_id == rpc_id


def test_an_output_names_the_device_of_its_own_worker(harness: Harness) -> None:
    with harness.unloaded() as (executor, worker):
        executor.load(ModelConfig())
        (handle,) = executor.submit(planned_call("a"))
        load = worker.expect(m.LoadModel)
        worker.send(m.RpcResult(rpc_id=load.rpc_id, loaded=msgspec.structs.replace(LOADED, device="cuda:1")))
        worker.finish(worker.begin())
        assert handle.output_ready.result(TIMEOUT_S).executed_on.device == "cuda:1"
