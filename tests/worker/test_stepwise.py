"""Step mode in the worker: decisions after each step, early stops, cancellation, and the resulting pixels."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import RequestCancelled
from omni_cli.media import Media
from omni_cli.platforms.streamless import CpuPlatform
from omni_cli.request import PlannedRequest
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel
from omni_cli.transport.ring import SlotPool
from omni_cli.worker.null import NullRunner
from omni_cli.worker.output.outbox import Outbox
from omni_cli.worker.output.packer import Packer
from omni_cli.worker.pipeline.step_reporter import StepReporter
from omni_cli.worker.runner import DiffusersRunner
from omni_cli.worker.runner_protocol import OnState, Runner, StepState
from omni_cli.worker.stepwise import StepThrottle, StepwiseDriver
from tests.factories import planned
from tests.worker.conftest import levels, run
from tests.worker.test_process import LARGE, Parent

WAN: dict[str, Any] = {"prompt": "x", "height": 32, "width": 32, "num_frames": 5, "num_inference_steps": 4}


class Stepless(Runner):
    """A runner without execute_stepwise."""


class Recording(NullRunner):
    """A runner that records its steps."""

    steps: list[int] = []  # noqa: RUF012 - shared with the test

    def execute_stepwise(self, requests: Sequence[PlannedRequest], on_state: OnState) -> list[Media]:
        self.steps.clear()

        def recorded(state: StepState) -> bool:
            self.steps.append(state.step)
            return on_state(state)

        return super().execute_stepwise(requests, recorded)


def step_mode_parent(**engine: Any) -> Parent:
    """Return the parent of a worker in step mode that has loaded a Recording runner."""
    runner = "tests.worker.test_stepwise:Recording"
    parent = Parent(ModelConfig(device="cpu"), EngineConfig(runner=runner, step_execution=True, **engine))
    parent.next(m.RpcResult, skip=True)
    return parent


def call(parent: Parent, latents: bool = False, **fields: Any) -> int:
    request = planned(num_inference_steps=4, **fields)
    rpc_id = parent.new_id()
    parent.send(m.ExecuteStepwise(rpc_id=rpc_id, batch_id=f"batch-{rpc_id}", requests=(request,), latents=latents))
    parent.next(m.Started)
    return rpc_id


def shut_down(parent: Parent) -> None:
    parent.send(m.Shutdown())
    parent.leave()
    assert parent.raised == []


def test_no_step_runs_before_the_decision_on_the_previous_one() -> None:
    parent = step_mode_parent()
    rpc_id = call(parent, latents=True, height=4, width=4)
    for number in (1, 2, 3, 4):
        output = parent.next(m.StepOutput)
        assert (output.step, output.total, output.timestep) == (number, 4, 4 - number)
        assert output.sigma == pytest.approx(1 - number / 4)
        assert output.latents is not None
        assert output.latents.shape == (1, 4, 2, 2)
        assert output.latents.inline == np.full(16, number, "float32").tobytes()
        assert Recording.steps == list(range(1, number + 1))
        parent.send(m.Proceed(rpc_id=rpc_id, step=number))
    assert parent.next(m.ComputeDone).error is None
    assert parent.next(m.OutputReady).stopped_at is None
    shut_down(parent)


def test_a_cancel_at_a_step_ends_the_call_and_frees_its_slots() -> None:
    parent = step_mode_parent()
    rpc_id = call(parent, **LARGE)
    parent.next(m.StepOutput)
    parent.send(m.Proceed(rpc_id=rpc_id, step=1))
    parent.next(m.StepOutput)
    parent.send(m.Cancel(rpc_id=rpc_id))
    done = parent.next(m.ComputeDone)
    assert done.error is not None
    assert (done.error.kind, done.error.message) == ("cancelled", "cancelled at step 2 of 4")
    assert Recording.steps == [1, 2]
    health = parent.ask("health").health
    assert health is not None
    assert (health.inflight, health.slots) == (0, 0)
    shut_down(parent)


def test_decisions_on_other_steps_and_calls_are_ignored() -> None:
    parent = step_mode_parent()
    first = call(parent, height=4, width=4)
    parent.next(m.StepOutput)
    parent.send(m.Cancel(rpc_id=first))
    parent.send(m.Proceed(rpc_id=first, step=1))  # too late
    parent.next(m.ComputeDone)
    second = call(parent, height=4, width=4)
    parent.next(m.StepOutput)
    parent.send(m.Proceed(rpc_id=second, step=7))  # a step that was not sent
    parent.send(m.Proceed(rpc_id=second, step=1, stop=True))
    assert parent.next(m.ComputeDone).error is None
    assert parent.next(m.OutputReady).stopped_at == 1
    shut_down(parent)


@pytest.mark.parametrize("async_output", [True, False])
def test_step_mode_has_an_output_thread_unless_async_output_is_off(async_output: bool) -> None:
    parent = step_mode_parent(async_output=async_output)
    rpc_id = call(parent, height=4, width=4)
    for number in (1, 2, 3, 4):
        parent.next(m.StepOutput)
        names = {thread.name for thread in threading.enumerate()}
        assert ("output" in names, "inbox" in names) == (async_output, True)
        parent.send(m.Proceed(rpc_id=rpc_id, step=number))
    parent.next(m.ComputeDone)
    assert parent.next(m.OutputReady).error is None
    shut_down(parent)


def test_large_latents_are_sent_in_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omni_cli.worker.output.outgoing.INLINE_BYTES", 8)
    parent = step_mode_parent()
    rpc_id = call(parent, latents=True, height=4, width=4)
    for number in (1, 2, 3, 4):
        latents = parent.next(m.StepOutput).latents
        assert latents is not None
        assert latents.slot is not None
        assert latents.slot.nbytes == 64
        parent.send(m.ReleaseSlot(slot_id=latents.slot.slot_id))
        parent.send(m.Proceed(rpc_id=rpc_id, step=number))
    parent.next(m.OutputReady, skip=True)
    shut_down(parent)


def test_latents_that_cannot_be_copied_free_their_slot() -> None:
    channel, other_end = Channel.pair()
    pool, engine, platform = SlotPool(1 << 22), EngineConfig(), CpuPlatform()
    outbox = Outbox(channel, pool, Packer(platform, engine.transport), platform, limit=0)
    driver = StepwiseDriver(NullRunner(), engine, platform, channel, pool, outbox)
    with pytest.raises(NotImplementedError, match="meta"):
        driver._copy_latents(torch.empty(1, 8, 256, 256, device="meta"))
    latents, slot = driver._copy_latents(torch.ones(1, 8, 256, 256, dtype=torch.bfloat16))
    assert slot is not None
    assert latents.slot is not None
    assert pool.usage() == (1, latents.slot.nbytes)
    assert slot.memory[: latents.slot.nbytes] == np.ones(8 * 256 * 256, "float32").tobytes()
    pool.close()
    channel.close()
    other_end.close()


@pytest.mark.parametrize("engine", [{"step_execution": True}, {"preview_every": 2}])
def test_step_mode_and_previews_with_a_runner_without_steps_are_a_usage_error(engine: dict[str, Any]) -> None:
    runner = "tests.worker.test_stepwise:Stepless"
    parent = Parent(ModelConfig(device="cpu"), EngineConfig(runner=runner, **engine))
    answer = parent.next(m.RpcResult)
    assert answer.error is not None
    assert answer.error.kind == m.USAGE_KIND
    assert "has no execute_stepwise, which --step-execution and --preview-every need" in answer.error.message
    parent.leave()


# ── diffusers ──


def stop_after(last: int) -> OnState:
    return lambda state: state.step < last


@pytest.mark.parametrize("name", ["wan", "flux", "ddim"])
def test_stepwise_execution_gives_the_same_pixels(runner_of: Callable[..., DiffusersRunner], name: str) -> None:
    fields = {
        "wan": WAN,
        "flux": {"prompt": "x", "num_inference_steps": 3, "height": 64, "width": 64},
        "ddim": {"num_inference_steps": 3},
    }[name]
    runner, request = runner_of(name), planned(seeds=(5, 6), batch_key="" if name == "ddim" else "k", **fields)
    states: list[StepState] = []

    def on_state(state: StepState) -> bool:
        states.append(state)
        return True

    (stepwise,) = runner.execute_stepwise([request], on_state)
    (whole,) = run(runner, request)
    assert levels(stepwise).tobytes() == levels(whole).tobytes()
    assert (stepwise.stopped_at, stepwise.notes) == (None, ())
    assert [state.step for state in states] == list(range(1, states[-1].total + 1))
    if name == "wan":
        assert all(state.latents.shape == states[0].latents.shape for state in states)
        assert float(states[-1].sigma or 0) == 0
        assert float(states[0].sigma or 0) > float(states[1].sigma or 0)


def test_an_early_stop_decodes_the_latents_of_that_step(
    runner_of: Callable[..., DiffusersRunner], plain_of: Callable[..., Any]
) -> None:
    (media,) = runner_of("wan").execute_stepwise([planned(**WAN)], stop_after(2))
    pipeline, latents_at = plain_of("wan"), []

    def keep(pipe: Any, index: int, t: Any, values: dict[str, Any]) -> dict[str, Any]:
        latents_at.append(values["latents"].clone())
        return values

    generator = torch.Generator("cpu").manual_seed(5)
    with torch.inference_mode():
        pipeline(**WAN, generator=generator, output_type="latent", callback_on_step_end=keep)
        vae = pipeline.vae
        shape = (1, vae.config.z_dim, 1, 1, 1)
        mean, std = torch.tensor(vae.config.latents_mean).view(shape), torch.tensor(vae.config.latents_std).view(shape)
        frames = vae.decode(latents_at[1] * std + mean, return_dict=False)[0]
    expected = ((frames / 2 + 0.5).clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 4, 1).numpy()
    assert np.abs(levels(media).astype(int) - expected).max() <= 1
    assert media.stopped_at == 2
    assert media.notes == ("stopped early: after step 2 of 4",)


def test_a_stop_at_the_last_step_has_no_effect(runner_of: Callable[..., DiffusersRunner]) -> None:
    (media,) = runner_of("wan").execute_stepwise([planned(**WAN)], stop_after(4))
    (whole,) = run(runner_of("wan"), planned(**WAN))
    assert (media.stopped_at, media.notes) == (None, ())
    assert levels(media).tobytes() == levels(whole).tobytes()


def test_a_pipeline_that_iterates_over_its_progress_bar_can_stop_early(
    runner_of: Callable[..., DiffusersRunner],
) -> None:
    steps: list[int] = []

    def on_state(state: StepState) -> bool:
        steps.append(state.step)
        return state.step < 2

    (media,) = runner_of("ddim").execute_stepwise([planned(num_inference_steps=5)], on_state)
    assert steps == [1, 2]
    assert (media.stopped_at, media.notes) == (2, ("stopped early: after step 2 of 5",))


class Uninterruptible:
    """A fake pipeline with a callback that cannot be interrupted, like Kandinsky 3."""

    num_timesteps = 3

    def __call__(self, callback_on_step_end: Any) -> None:
        for index in range(3):
            callback_on_step_end(self, index, 100 - index, {"latents": torch.zeros(1)})


def test_a_pipeline_that_cannot_stop_runs_all_steps_and_adds_a_note() -> None:
    states: list[int] = []

    def on_state(state: StepState) -> bool:
        states.append(state.step)
        return False

    steps, pipeline = StepReporter(1, on_state, lambda: False), Uninterruptible()
    steps.next_call()
    pipeline(**steps.attach(pipeline, ("callback_on_step_end",), 3))
    assert states == [1, 2, 3]
    assert steps.stopped_at is None
    assert steps.notes == ("asked to stop after step 1: this pipeline cannot, and did all 3",)


def test_all_samples_of_a_request_stop_at_the_same_step(runner_of: Callable[..., DiffusersRunner]) -> None:
    runner = runner_of("ddim")
    request = planned(seeds=(5, 6), num_inference_steps=4)
    steps: list[int] = []

    def stop_at_2(state: StepState) -> bool:
        steps.append(state.step)
        return state.step != 2

    (media,) = runner.execute_stepwise([request], stop_at_2)
    alone = [
        levels(*runner.execute_stepwise([planned(seeds=(seed,), num_inference_steps=4)], stop_after(2)))
        for seed in (5, 6)
    ]
    assert levels(media).tobytes() == np.concatenate(alone).tobytes()
    assert media.stopped_at == 2


def test_an_exception_of_on_state_ends_the_forward_pass(runner_of: Callable[..., DiffusersRunner]) -> None:
    states: list[int] = []

    def on_state(state: StepState) -> bool:
        states.append(state.step)
        if state.step == 2:
            raise RequestCancelled("enough")
        return True

    with pytest.raises(RequestCancelled, match="enough"):
        runner_of("wan").execute_stepwise([planned(**WAN)], on_state)
    assert states == [1, 2]
    assert levels(*run(runner_of("wan"), planned(**WAN))).ndim == 5, "the next request succeeds"


def test_fast_steps_are_thinned_out_and_the_last_one_is_passed_on() -> None:
    passed_on: list[int] = []
    now = 100.0
    throttle = StepThrottle(lambda step, total: passed_on.append(step), lambda: now)
    for step in range(1, 101):
        throttle(step, 100)
        now += 0.01
    assert passed_on[:3] == [1, 6, 11]
    assert passed_on[-1] == 100
    assert len(passed_on) == 21


def test_slow_steps_are_all_passed_on() -> None:
    passed_on: list[tuple[int, int]] = []
    now = 100.0
    throttle = StepThrottle(lambda step, total: passed_on.append((step, total)), lambda: now)
    for step in (1, 2, 3):
        throttle(step, 3)
        now += 1
    assert passed_on == [(1, 3), (2, 3), (3, 3)]
