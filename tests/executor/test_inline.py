"""The inline executor keeps the same promises in this process."""

import msgspec
import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, ForwardError, ModelLoadError, UsageError
from omni_cli.events import AnyEvent, ForwardDone, ForwardStarted, ForwardStep, ModelLoading, ModelReady, OutputReady
from omni_cli.executor import make_executor
from omni_cli.executor.inline import InlineExecutor
from omni_cli.executor.steering import Steering
from tests.executor.puppet import Stage, planned

NULL = EngineConfig(executor="inline", runner="omni_cli.worker.null:NullRunner")
BROKEN = EngineConfig(executor="inline", runner="tests.executor.runners:Broken")
SIZE = {"height": 4, "width": 6, "num_inference_steps": 2}


def test_the_futures_are_settled_when_submit_returns_and_every_stage_is_told(stage: Stage) -> None:
    with make_executor(NULL, stage.observe) as executor:
        assert executor.load(ModelConfig(device="cpu")).loaded.result(0).info.pipeline == "Null"
        first, second = executor.submit(planned("a", "b", **SIZE))
        output = first.output_ready.result(0)
        assert output.header.shape == (1, 1, 4, 6, 3)
        assert bytes(output.buffer) == bytes(4 * 6 * 3)
        assert output.buffer.readonly
        assert first.compute_done.result(0) == output.forward == second.compute_done.result(0)
        output.release()
    assert isinstance(executor, InlineExecutor)
    kinds = [type(event) for event in stage.events]
    assert kinds == [
        ModelLoading,
        ModelReady,
        ForwardStarted,
        ForwardStep,
        ForwardStep,
        ForwardDone,
        *[OutputReady] * 2,
    ]


def test_what_a_pipeline_raises_fails_its_requests_with_its_cause_and_the_next_goes_on() -> None:
    with InlineExecutor(BROKEN, lambda event: None) as executor:
        executor.load(ModelConfig(device="cpu"))
        for handle in executor.submit(planned("a", "b", prompt="raise")):
            for future in (handle.compute_done, handle.output_ready):
                raised = future.exception(0)
                assert isinstance(raised, ForwardError)
                assert str(raised) == "ValueError: no"
                assert isinstance(raised.__cause__, ValueError)
        assert executor.submit(planned("c", **SIZE))[0].output_ready.result(0).header.dtype == "uint8"


def test_a_model_that_cannot_be_loaded_says_why() -> None:
    with InlineExecutor(BROKEN, lambda event: None) as executor:
        raised = executor.load(ModelConfig(device="cpu", model="nowhere")).loaded.exception(0)
        assert isinstance(raised, ModelLoadError)
        assert str(raised) == "OSError: nowhere is not there"


def test_a_closed_one_takes_nothing_more() -> None:
    executor = InlineExecutor(NULL, lambda event: None)
    executor.load(ModelConfig(device="cpu"))
    assert executor.collective_rpc("drain") == [True]
    assert executor.collective_rpc("sleep") == [True]
    executor.close()
    executor.close()
    for raises in (lambda: executor.submit(planned("a")), lambda: executor.collective_rpc("health")):
        with pytest.raises(EngineError, match="closed"):
            raises()


def test_step_mode_is_the_same_pixels_and_steps_cannot_be_handed_out() -> None:
    requests = planned("a", num_inference_steps=3, height=4, width=4)
    events: list[AnyEvent] = []
    plain = InlineExecutor(NULL, lambda event: None)
    stepwise = InlineExecutor(msgspec.structs.replace(NULL, step_execution=True), events.append)
    with plain, stepwise:
        plain.load(ModelConfig(device="cpu"))
        stepwise.load(ModelConfig(device="cpu"))
        (one,), (other,) = plain.submit(requests), stepwise.submit(requests)
        assert bytes(one.output_ready.result(0).buffer) == bytes(other.output_ready.result(0).buffer)
        assert [event.step for event in events if isinstance(event, ForwardStep)] == [1, 2, 3]
        steering = Steering()
        steering.stop()
        (stopped,) = stepwise.submit(requests, steering)
        assert stopped.output_ready.result(0).stopped_at == 1
        with pytest.raises(UsageError, match="cannot hand out steps"):
            stepwise.submit(requests, Steering(paced=True))
