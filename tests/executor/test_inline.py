"""The inline executor resolves the same futures and raises the same errors, in this process."""

import msgspec
import pytest
import torch

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, ForwardError, ModelLoadError, UsageError
from omni_cli.events import AnyEvent, ForwardDone, ForwardStarted, ForwardStep, ModelLoading, ModelReady, OutputArrived
from omni_cli.executor import make_executor
from omni_cli.executor.inline import InlineExecutor
from omni_cli.executor.step_controller import StepController
from omni_cli.request import ExecutedOn
from tests.executor.fake_worker import Harness
from tests.factories import planned_call

NULL = EngineConfig(executor="inline", runner="omni_cli.worker.null:NullRunner")
FAULTY = EngineConfig(executor="inline", runner="tests.executor.runners:FaultyRunner")
SIZE = {"height": 4, "width": 6, "num_inference_steps": 2}


def test_futures_are_done_when_submit_returns_and_each_stage_is_observed(harness: Harness) -> None:
    with make_executor(NULL, harness.observe) as executor:
        assert executor.load(ModelConfig(device="cpu")).loaded.result(0).info.pipeline == "Null"
        first, second = executor.submit(planned_call("a", "b", **SIZE))
        output = first.output_ready.result(0)
        assert output.header.shape == (1, 1, 4, 6, 3)
        assert bytes(output.buffer) == b"\x05" * (4 * 6 * 3)
        assert output.buffer.readonly
        assert first.compute_done.result(0) == output.forward == second.compute_done.result(0)
        output.release()
    assert isinstance(executor, InlineExecutor)
    kinds = [type(event) for event in harness.events]
    assert kinds == [
        ModelLoading,
        ModelReady,
        ForwardStarted,
        ForwardStep,
        ForwardStep,
        ForwardDone,
        *[OutputArrived] * 2,
    ]


def test_exception_of_a_pipeline_fails_its_requests_and_the_next_call_runs() -> None:
    with InlineExecutor(FAULTY, lambda event: None) as executor:
        executor.load(ModelConfig(device="cpu"))
        for handle in executor.submit(planned_call("a", "b", prompt="raise")):
            for future in (handle.compute_done, handle.output_ready):
                raised = future.exception(0)
                assert isinstance(raised, ForwardError)
                assert str(raised) == "ValueError: no"
                assert isinstance(raised.__cause__, ValueError)
        assert executor.submit(planned_call("c", **SIZE))[0].output_ready.result(0).header.dtype == "uint8"


def test_model_that_cannot_be_loaded_raises_with_the_reason() -> None:
    with InlineExecutor(FAULTY, lambda event: None) as executor:
        raised = executor.load(ModelConfig(device="cpu", model="nowhere")).loaded.exception(0)
        assert isinstance(raised, ModelLoadError)
        assert str(raised) == "OSError: nowhere is not there"


def test_a_call_has_the_threads_of_a_worker_and_leaves_those_of_the_caller() -> None:
    before = torch.get_num_threads()
    with InlineExecutor(FAULTY, lambda event: None) as executor:
        executor.load(ModelConfig(device="cpu"))
        executor.scale(4, threads=before + 2)
        assert str(executor.submit(planned_call("a", prompt="threads"))[0].output_ready.exception(0)).endswith(
            f"{before + 2} threads"
        )
        executed_on = executor.submit(planned_call("b", **SIZE))[0].output_ready.result(0).executed_on
    assert executed_on == ExecutedOn("cpu", before + 2)
    assert torch.get_num_threads() == before


def test_shut_down_executor_refuses_further_calls() -> None:
    executor = InlineExecutor(NULL, lambda event: None)
    executor.load(ModelConfig(device="cpu"))
    assert executor.collective_rpc("drain") == [True]
    assert executor.collective_rpc("sleep") == [True]
    executor.shutdown()
    executor.shutdown()
    for raises in (lambda: executor.submit(planned_call("a")), lambda: executor.collective_rpc("health")):
        with pytest.raises(EngineError, match="closed"):
            raises()


def test_step_mode_gives_the_same_pixels_and_refuses_a_paced_controller() -> None:
    requests = planned_call("a", num_inference_steps=3, height=4, width=4)
    events: list[AnyEvent] = []
    plain = InlineExecutor(NULL, lambda event: None)
    stepwise = InlineExecutor(msgspec.structs.replace(NULL, step_execution=True), events.append)
    with plain, stepwise:
        plain.load(ModelConfig(device="cpu"))
        stepwise.load(ModelConfig(device="cpu"))
        (one,), (other,) = plain.submit(requests), stepwise.submit(requests)
        assert bytes(one.output_ready.result(0).buffer) == bytes(other.output_ready.result(0).buffer)
        assert [event.step for event in events if isinstance(event, ForwardStep)] == [1, 2, 3]
        controller = StepController()
        controller.stop()
        (stopped,) = stepwise.submit(requests, controller)
        assert stopped.output_ready.result(0).stopped_at == 1
        with pytest.raises(UsageError, match="cannot hand out steps"):
            stepwise.submit(requests, StepController(paced=True))
