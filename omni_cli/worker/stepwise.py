"""Run the calls of the executor on a runner: in one go, in one go with previews, or step by step.

    step mode, main thread:  step k done on the device ── StepOutput ──> executor
                             wait .....................<── Proceed ──── go on, or decode the latents as they are
                                                       <── Cancel ───── RequestCancelled: no step k+1

Previews are computed on the device after the step, and leave through the outbox like an output.
"""

import time
from collections.abc import Callable, Sequence

import torch

from omni_cli.config import EngineConfig
from omni_cli.errors import RequestCancelled, UsageError
from omni_cli.media import Media
from omni_cli.platforms.base import Platform
from omni_cli.request import PlannedRequest
from omni_cli.transport.channel import Channel
from omni_cli.transport.messages import (
    Cancel,
    ExecuteModel,
    ExecuteStepwise,
    FromWorker,
    Preview,
    Step,
    StepLatents,
    StepOutput,
    encode,
)
from omni_cli.transport.ring import Slot, SlotPool
from omni_cli.worker.inbox import Inbox
from omni_cli.worker.output.outbox import Outbox, OutgoingPreview
from omni_cli.worker.output.outgoing import PayloadBuffer
from omni_cli.worker.runner_protocol import OnState, OnStep, Runner, StepState, StepwiseRunner

STEP_INTERVAL_S = 0.05
"""Seconds between two Step messages: each costs a message, a wake-up of the parent and a redraw."""


class StepThrottle:
    """A filter on the steps of one call that passes on one per `STEP_INTERVAL_S` seconds, and always the last one."""

    def __init__(self, on_step: OnStep, clock: Callable[[], float] = time.monotonic) -> None:
        """Pass steps on to `on_step`."""
        self._on_step = on_step
        self._clock = clock
        self._next = 0.0

    def __call__(self, step: int, total: int) -> None:
        """Pass on step `step` of `total`, counted from 1, if it is due."""
        now = self._clock()
        if now >= self._next or step == total:
            self._next = now + STEP_INTERVAL_S
            self._on_step(step, total)


class StepwiseDriver:
    """The main thread's driver of the runner, for calls in one go and step by step."""

    def __init__(
        self, runner: Runner, engine: EngineConfig, platform: Platform, channel: Channel, pool: SlotPool, outbox: Outbox
    ) -> None:
        """Create a driver. Raises UsageError if `engine` has step mode or previews and the runner reports no steps."""
        if (engine.step_execution or engine.preview_every) and not isinstance(runner, StepwiseRunner):
            raise UsageError(
                f"--runner {engine.runner} has no execute_stepwise, which --step-execution and --preview-every need"
            )
        self._runner = runner
        self._previews = engine.preview_every > 0
        self._platform = platform
        self._channel = channel
        self._pool = pool
        self._outbox = outbox

    def execute(self, message: ExecuteModel | ExecuteStepwise, inbox: Inbox) -> Sequence[Media]:
        """Return the media of the call.

        Raises RequestCancelled if the parent cancels the call, else whatever the runner raises.
        """
        rpc_id, requests = message.rpc_id, message.requests
        if isinstance(message, ExecuteStepwise):
            return self._stepwise(requests, self._on_state(message, inbox))
        on_step = StepThrottle(lambda step, total: self._send(Step(rpc_id=rpc_id, step=step, total=total)))
        if not self._previews:
            return self._runner.execute_model(requests, on_step, lambda: inbox.is_cancelled(rpc_id))

        def on_state(state: StepState) -> bool:
            self._send_previews(rpc_id, requests, state)
            on_step(state.step, state.total)
            if inbox.is_cancelled(rpc_id):
                raise RequestCancelled(f"cancelled at step {state.step} of {state.total}")
            return True

        return self._stepwise(requests, on_state)

    def _stepwise(self, requests: Sequence[PlannedRequest], on_state: OnState) -> Sequence[Media]:
        if not isinstance(self._runner, StepwiseRunner):
            raise UsageError(f"the runner {type(self._runner).__name__} has no execute_stepwise")
        return self._runner.execute_stepwise(requests, on_state)

    def _on_state(self, message: ExecuteStepwise, inbox: Inbox) -> OnState:
        """Return a callback that sends each step to the executor and waits for its decision."""
        rpc_id = message.rpc_id

        def on_state(state: StepState) -> bool:
            self._send_previews(rpc_id, message.requests, state)
            self._platform.wait_for(self._platform.record_device_event())
            self._send_step_output(rpc_id, state, message.latents)
            decision = inbox.wait_for_decision(rpc_id, state.step)
            if isinstance(decision, Cancel):
                raise RequestCancelled(f"cancelled at step {state.step} of {state.total}")
            return not decision.stop

        return on_state

    def _send_previews(self, rpc_id: int, requests: Sequence[PlannedRequest], state: StepState) -> None:
        """Send the previews of a step, and the reason if there will be no more of them."""
        step, total = state.step, state.total
        if state.fault is not None:
            self._send(Preview(rpc_id=rpc_id, request_id=requests[0].id, step=step, total=total, fault=state.fault))
        if state.pictures:
            done = self._platform.record_device_event()
            for picture in state.pictures:
                message = Preview(rpc_id=rpc_id, request_id=requests[picture.owner].id, step=step, total=total)
                self._outbox.show(OutgoingPreview(message, picture.pixels, done))

    def _send_step_output(self, rpc_id: int, state: StepState, with_latents: bool) -> None:
        """Send StepOutput, with the file descriptor of the latents' slot if the parent does not have it yet."""
        latents, slot = None, None
        if with_latents and state.latents is not None:
            latents, slot = self._copy_latents(state.latents)
        message = StepOutput(
            rpc_id=rpc_id,
            step=state.step,
            total=state.total,
            timestep=None if state.timestep is None else float(state.timestep),
            sigma=None if state.sigma is None else float(state.sigma),
            latents=latents,
        )
        self._channel.send(encode(message), (slot.fd,) if slot is not None and slot.fresh else ())
        if slot is not None:
            self._pool.mark_shared(slot)

    def _copy_latents(self, latents: torch.Tensor) -> tuple[StepLatents, Slot | None]:
        """Copy `latents` to host memory as float32: inline if they are small, else in a slot, which is returned too."""
        shape, count = tuple(latents.shape), latents.numel()
        nbytes = count * torch.float32.itemsize
        with PayloadBuffer(self._pool) as buffer:
            flat = torch.frombuffer(buffer.allocate(nbytes), dtype=torch.float32, count=count)
            flat.view(shape).copy_(latents.detach())
            if (slot := buffer.slot) is None:
                return StepLatents(shape=shape, inline=bytes(buffer.inline or b"")), None
            return StepLatents(shape=shape, slot=slot.ref(nbytes, self._pool.take_retired())), slot

    def _send(self, message: FromWorker) -> None:
        self._channel.send(encode(message))
