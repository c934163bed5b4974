"""Processes that start, load, answer questions and end - or say why they do not."""

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, ModelLoadError, UsageError, WorkerDied
from omni_cli.executor.local import LocalExecutor
from omni_cli.transport import messages as m
from tests.executor.puppet import LOADED, PATIENCE_S, Stage, error, planned


def test_a_worker_that_cannot_start_gives_its_own_words(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        loading = executor.load(ModelConfig())
        worker.do("sys.stderr.write('ImportError: libcudart.so.12'); sys.stderr.flush()")
        worker.die("os._exit(1)")
        for future in (loading.identified, loading.loaded):
            with pytest.raises(WorkerDied, match=r"exited with code 1; its log ends with:\nImportError: libcudart"):
                future.result(PATIENCE_S)


def test_a_death_before_load_is_asked_for_is_told_by_load(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        worker.die("os._exit(1)")
        with pytest.raises(WorkerDied, match="exited with code 1; its log is empty"):
            executor.load(ModelConfig()).loaded.result(PATIENCE_S)


@pytest.mark.parametrize(("kind", "raised"), [("forward_failed", ModelLoadError), ("usage", UsageError)])
def test_a_model_that_cannot_be_loaded_is_told_with_the_remote_traceback(
    stage: Stage, kind: str, raised: type[Exception]
) -> None:
    with stage.alone() as (executor, worker):
        loading = executor.load(ModelConfig())
        worker.send(m.RpcResult(rpc_id=worker.expect(m.LoadModel).rpc_id, error=error(kind, "no such model")))
        with pytest.raises(raised, match="no such model") as caught:
            loading.loaded.result(PATIENCE_S)
        assert "Traceback of the worker" in str(caught.value.__cause__)
        with pytest.raises(raised):
            executor.submit(planned("a"))


def test_a_model_may_be_known_before_it_is_loaded_and_requests_wait_for_it(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        loading = executor.load(ModelConfig())
        load = worker.expect(m.LoadModel)
        worker.send(m.Identified(rpc_id=load.rpc_id, loaded=LOADED))
        assert loading.identified.result(PATIENCE_S) == LOADED
        assert not loading.loaded.done()
        (handle,) = executor.submit(planned("a"))
        assert worker.hears_nothing()
        worker.send(m.RpcResult(rpc_id=load.rpc_id, loaded=LOADED))
        assert loading.loaded.result(PATIENCE_S) == LOADED
        worker.finish(worker.begin())
        handle.output_ready.result(PATIENCE_S)


def test_a_model_that_is_not_what_it_said_ends_the_executor(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        loading = executor.load(ModelConfig())
        load = worker.expect(m.LoadModel)
        worker.send(m.Identified(rpc_id=load.rpc_id, loaded=LOADED))
        (handle,) = executor.submit(planned("a"))
        other = msgspec.structs.replace(LOADED, device="cuda:0")
        worker.send(m.RpcResult(rpc_id=load.rpc_id, loaded=other))
        for future in (loading.loaded, handle.output_ready):
            with pytest.raises(EngineError, match="loaded another model than it said"):
                future.result(PATIENCE_S)
        assert worker.hears_nothing()


def test_closing_does_not_wait_for_a_model_that_is_being_loaded(stage: Stage) -> None:
    with stage.alone() as (executor, worker):
        loading = executor.load(ModelConfig())
        worker.expect(m.LoadModel)
        executor.close()
        assert isinstance(loading.loaded.exception(0), EngineError)


def test_a_program_that_is_not_there_is_an_engine_error_and_nothing_is_left() -> None:
    with pytest.raises(EngineError, match="worker 0 cannot be started"):
        LocalExecutor(EngineConfig(), lambda event: None, command=("/nowhere/python",))


def test_answers_to_an_rpc_come_in_worker_order(stage: Stage) -> None:
    with ThreadPoolExecutor() as threads, stage.pair() as (executor, first, second):
        answers = threads.submit(executor.collective_rpc, "drain")
        for worker in (second, first):
            worker.send(m.RpcResult(rpc_id=worker.expect(m.Rpc).rpc_id, drained=worker is second))
        assert answers.result(PATIENCE_S) == [False, True]


def test_an_rpc_that_fails_raises_with_the_workers_reason(stage: Stage) -> None:
    with ThreadPoolExecutor() as threads, stage.executor() as (executor, worker):
        answers = threads.submit(executor.collective_rpc, "sleep")
        rpc = worker.expect(m.Rpc)
        assert rpc.method == "sleep"
        worker.send(m.RpcResult(rpc_id=rpc.rpc_id, drained=False, error=error("x", "did not drain")))
        with pytest.raises(EngineError, match="sleep failed: did not drain") as caught:
            answers.result(PATIENCE_S)
        assert "Traceback of the worker" in str(caught.value.__cause__)


def test_an_rpc_to_a_worker_that_dies_is_not_waited_for(stage: Stage) -> None:
    with ThreadPoolExecutor() as threads, stage.executor() as (executor, worker):
        answers = threads.submit(executor.collective_rpc, "health")
        worker.expect(m.Rpc)
        worker.die("os.kill(os.getpid(), signal.SIGKILL)")
        with pytest.raises(WorkerDied, match="ended before it answered"):
            answers.result(PATIENCE_S)
        stage.next().load()
