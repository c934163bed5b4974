"""Step mode in the worker: who is asked, what is done, what is not, and which pixels come of it."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from omni_cli.config import EngineConfig, ModelConfig, VideoOutputTransport
from omni_cli.errors import RequestCancelled
from omni_cli.media import Media
from omni_cli.request import PlannedRequest
from omni_cli.transport import messages as m
from omni_cli.worker.null import NullRunner
from omni_cli.worker.postprocess import prepare
from omni_cli.worker.protocol import OnState, Runner, StepState
from omni_cli.worker.runner import DiffusersRunner
from omni_cli.worker.steps import Steps
from tests.worker.conftest import levels, planned, run
from tests.worker.test_process import LARGE, Parent

WAN: dict[str, Any] = {"prompt": "x", "height": 32, "width": 32, "num_frames": 5, "num_inference_steps": 4}


class Stepless(Runner):
    """A runner that knows no steps."""


class Scripted(NullRunner):
    """Records the steps that it did."""

    did: list[int] = []  # noqa: RUF012 - the test's view into the worker

    def execute_stepwise(self, requests: Sequence[PlannedRequest], on_state: OnState) -> list[Media]:
        self.did.clear()

        def recorded(state: StepState) -> bool:
            self.did.append(state.step)
            return on_state(state)

        return super().execute_stepwise(requests, recorded)


def stepping(**engine: Any) -> Parent:
    """A parent over a worker with the scripted runner, loaded."""
    runner = "tests.worker.test_stepwise:Scripted"
    parent = Parent(ModelConfig(device="cpu"), EngineConfig(runner=runner, step_execution=True, **engine))
    parent.next(m.RpcResult, skip=True)
    return parent


def call(parent: Parent, latents: bool = False, **fields: Any) -> int:
    request = planned(num_inference_steps=4, **fields)
    rpc_id = parent.new_id()
    parent.send(m.ExecuteStepwise(rpc_id=rpc_id, batch_id=f"batch-{rpc_id}", requests=(request,), latents=latents))
    parent.next(m.Started)
    return rpc_id


def leave(parent: Parent) -> None:
    parent.send(m.Shutdown())
    parent.leave()
    assert parent.raised == []


def test_no_step_is_begun_before_the_one_before_it_was_answered() -> None:
    parent = stepping()
    rpc_id = call(parent, latents=True, height=4, width=4)
    for number in (1, 2, 3, 4):
        output = parent.next(m.StepOutput)
        assert (output.step, output.total, output.timestep) == (number, 4, 4 - number)
        assert output.sigma == pytest.approx(1 - number / 4)
        assert output.latents is not None
        assert output.latents.shape == (1, 4, 2, 2)
        assert output.latents.inline == np.full(16, number, "float32").tobytes()
        assert Scripted.did == list(range(1, number + 1))
        parent.send(m.Proceed(rpc_id=rpc_id, step=number))
    assert parent.next(m.ComputeDone).error is None
    assert parent.next(m.OutputReady).stopped_at is None
    leave(parent)


def test_a_cancel_at_a_step_means_that_no_other_is_done_and_the_slots_are_back() -> None:
    parent = stepping()
    rpc_id = call(parent, **LARGE)
    parent.next(m.StepOutput)
    parent.send(m.Proceed(rpc_id=rpc_id, step=1))
    parent.next(m.StepOutput)
    parent.send(m.Cancel(rpc_id=rpc_id))
    done = parent.next(m.ComputeDone)
    assert done.error is not None
    assert (done.error.kind, done.error.message) == ("cancelled", "cancelled at step 2 of 4")
    assert Scripted.did == [1, 2]
    health = parent.ask("health").health
    assert health is not None
    assert (health.inflight, health.slots) == (0, 0)
    leave(parent)


def test_a_word_on_an_earlier_step_or_call_is_out_of_date() -> None:
    parent = stepping()
    first = call(parent, height=4, width=4)
    parent.next(m.StepOutput)
    parent.send(m.Cancel(rpc_id=first))
    parent.send(m.Proceed(rpc_id=first, step=1))  # too late
    parent.next(m.ComputeDone)
    second = call(parent, height=4, width=4)
    parent.next(m.StepOutput)
    parent.send(m.Proceed(rpc_id=second, step=7))  # never asked
    parent.send(m.Proceed(rpc_id=second, step=1, stop=True))
    assert parent.next(m.ComputeDone).error is None
    assert parent.next(m.OutputReady).stopped_at == 1
    leave(parent)


@pytest.mark.parametrize("async_output", [True, False])
def test_the_output_thread_is_there_in_step_mode_and_not_in_pure_step_mode(async_output: bool) -> None:
    parent = stepping(async_output=async_output)
    rpc_id = call(parent, height=4, width=4)
    for number in (1, 2, 3, 4):
        parent.next(m.StepOutput)
        names = {thread.name for thread in threading.enumerate()}
        assert ("output" in names, "inbox" in names) == (async_output, True)
        parent.send(m.Proceed(rpc_id=rpc_id, step=number))
    parent.next(m.ComputeDone)
    assert parent.next(m.OutputReady).error is None
    leave(parent)


def test_large_latents_travel_in_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omni_cli.worker.parcels.INLINE_BYTES", 8)
    parent = stepping()
    rpc_id = call(parent, latents=True, height=4, width=4)
    for number in (1, 2, 3, 4):
        latents = parent.next(m.StepOutput).latents
        assert latents is not None
        assert latents.slot is not None
        assert latents.slot.nbytes == 64
        parent.send(m.ReleaseSlot(slot_id=latents.slot.slot_id))
        parent.send(m.Proceed(rpc_id=rpc_id, step=number))
    parent.next(m.OutputReady, skip=True)
    leave(parent)


@pytest.mark.parametrize("engine", [{"step_execution": True}, {"preview_every": 2}])
def test_a_runner_without_steps_is_a_setting_that_cannot_be_used(engine: dict[str, Any]) -> None:
    runner = "tests.worker.test_stepwise:Stepless"
    parent = Parent(ModelConfig(device="cpu"), EngineConfig(runner=runner, **engine))
    answer = parent.next(m.RpcResult)
    assert answer.error is not None
    assert answer.error.kind == m.USAGE_KIND
    assert "has no execute_stepwise, which --step-execution and --preview-every need" in answer.error.message
    parent.leave()


# ── diffusers ──


def to_the_end(state: StepState) -> bool:
    return True


def until(last: int) -> OnState:
    return lambda state: state.step < last


@pytest.mark.parametrize("name", ["wan", "flux", "ddim"])
def test_step_by_step_gives_the_pixels_of_one_go(runner_of: Callable[..., DiffusersRunner], name: str) -> None:
    fields = {
        "wan": WAN,
        "flux": {"prompt": "x", "num_inference_steps": 3, "height": 64, "width": 64},
        "ddim": {"num_inference_steps": 3},
    }[name]
    runner, request = runner_of(name), planned((5, 6), **fields)
    seen: list[StepState] = []

    def on_state(state: StepState) -> bool:
        seen.append(state)
        return True

    (stepwise,) = runner.execute_stepwise([request], on_state)
    (whole,) = run(runner, request)
    assert levels(stepwise).tobytes() == levels(whole).tobytes()
    assert (stepwise.stopped_at, stepwise.notes) == (None, ())
    assert [state.step for state in seen] == list(range(1, seen[-1].total + 1))
    if name == "wan":
        assert all(state.latents.shape == seen[0].latents.shape for state in seen)
        assert float(seen[-1].sigma or 0) == 0
        assert float(seen[0].sigma or 0) > float(seen[1].sigma or 0)


def test_stop_early_decodes_the_latents_of_that_step(
    runner_of: Callable[..., DiffusersRunner], plain_of: Callable[..., Any]
) -> None:
    (media,) = runner_of("wan").execute_stepwise([planned(**WAN)], until(2))
    pipeline, at = plain_of("wan"), []

    def keep(pipe: Any, index: int, t: Any, values: dict[str, Any]) -> dict[str, Any]:
        at.append(values["latents"].clone())
        return values

    generator = torch.Generator("cpu").manual_seed(5)
    with torch.inference_mode():
        pipeline(**WAN, generator=generator, output_type="latent", callback_on_step_end=keep)
        vae = pipeline.vae
        shape = (1, vae.config.z_dim, 1, 1, 1)
        mean, std = torch.tensor(vae.config.latents_mean).view(shape), torch.tensor(vae.config.latents_std).view(shape)
        frames = vae.decode(at[1] * std + mean, return_dict=False)[0]
    expected = ((frames / 2 + 0.5).clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 4, 1).numpy()
    assert np.abs(levels(media).astype(int) - expected).max() <= 1
    assert media.stopped_at == 2
    assert media.notes == ("stopped early: after step 2 of 4",)


def test_a_stop_at_the_last_step_is_no_stop(runner_of: Callable[..., DiffusersRunner]) -> None:
    (media,) = runner_of("wan").execute_stepwise([planned(**WAN)], until(4))
    (whole,) = run(runner_of("wan"), planned(**WAN))
    assert (media.stopped_at, media.notes) == (None, ())
    assert levels(media).tobytes() == levels(whole).tobytes()


def test_a_pipeline_that_walks_its_bar_stops_early_too(runner_of: Callable[..., DiffusersRunner]) -> None:
    steps: list[int] = []

    def on_state(state: StepState) -> bool:
        steps.append(state.step)
        return state.step < 2

    (media,) = runner_of("ddim").execute_stepwise([planned(num_inference_steps=5)], on_state)
    assert steps == [1, 2]
    assert (media.stopped_at, media.notes) == (2, ("stopped early: after step 2 of 5",))


class Deaf:
    """A pipeline with a callback and no way to be interrupted, as Kandinsky 3 is."""

    num_timesteps = 3

    def __call__(self, callback_on_step_end: Any) -> None:
        for index in range(3):
            callback_on_step_end(self, index, 100 - index, {"latents": torch.zeros(1)})


def test_a_pipeline_that_cannot_stop_does_all_its_steps_and_says_so() -> None:
    seen: list[int] = []

    def on_state(state: StepState) -> bool:
        seen.append(state.step)
        return False

    steps, pipeline = Steps(1, on_state, lambda: False), Deaf()
    steps.next_call()
    pipeline(**steps.attach(pipeline, ("callback_on_step_end",), 3))
    assert seen == [1, 2, 3]
    assert steps.stopped_at is None
    assert steps.notes == ("asked to stop after step 1: this pipeline cannot, and did all 3",)


def test_all_outputs_of_a_request_stop_at_the_same_step(runner_of: Callable[..., DiffusersRunner]) -> None:
    runner = runner_of("ddim")
    request = planned((5, 6), num_inference_steps=4)
    asked: list[int] = []

    def once(state: StepState) -> bool:
        asked.append(state.step)
        return state.step != 2

    (media,) = runner.execute_stepwise([request], once)
    alone = [levels(*runner.execute_stepwise([planned((seed,), num_inference_steps=4)], until(2))) for seed in (5, 6)]
    assert levels(media).tobytes() == np.concatenate(alone).tobytes()
    assert media.stopped_at == 2


def test_what_on_state_raises_ends_the_forward_there(runner_of: Callable[..., DiffusersRunner]) -> None:
    seen: list[int] = []

    def on_state(state: StepState) -> bool:
        seen.append(state.step)
        if state.step == 2:
            raise RequestCancelled("enough")
        return True

    with pytest.raises(RequestCancelled, match="enough"):
        runner_of("wan").execute_stepwise([planned(**WAN)], on_state)
    assert seen == [1, 2]
    assert prepare(*run(runner_of("wan"), planned(**WAN)), VideoOutputTransport()).data.ndim == 5, "the next one works"
