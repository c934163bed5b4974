"""How the worker leads a forward: at one go, at one go with previews on the way, or step by step.

    step mode, main thread:  step k done on the device ── STEP_OUTPUT ──> executor
                             wait ......................<── PROCEED ──── go on, or decode what there is
                                                        <── CANCEL ───── RequestCancelled: no step k+1

Pictures for previews are computed on the device behind the step, and leave through the outbox like an output.
"""

from collections.abc import Sequence

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
from omni_cli.worker.outbox import Outbox, Sketch
from omni_cli.worker.parcels import Buffer
from omni_cli.worker.progress import StepTeller
from omni_cli.worker.protocol import OnState, Runner, StepState, StepwiseRunner, Streamed


class Leader:
    """Calls the runner for a message. Main thread only."""

    def __init__(
        self, runner: Runner, engine: EngineConfig, platform: Platform, channel: Channel, pool: SlotPool, outbox: Outbox
    ) -> None:
        """Raises UsageError if the settings ask for steps or previews and the runner knows no steps."""
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

    def lead(self, message: ExecuteModel | ExecuteStepwise, inbox: Inbox) -> Sequence[Media | Streamed]:
        """The media of the call. Raises RequestCancelled where the parent no longer wants it, else as the runner does."""
        rpc_id, requests = message.rpc_id, message.requests
        if isinstance(message, ExecuteStepwise):
            return self._stepwise(requests, self._asking(message, inbox))
        tell = StepTeller(lambda step, total: self._send(Step(rpc_id=rpc_id, step=step, total=total)))
        if not self._previews:
            return self._runner.execute_model(requests, tell, lambda: inbox.is_cancelled(rpc_id))

        def on_state(state: StepState) -> bool:
            self._show(rpc_id, requests, state)
            tell(state.step, state.total)
            if inbox.is_cancelled(rpc_id):
                raise RequestCancelled(f"cancelled at step {state.step} of {state.total}")
            return True

        return self._stepwise(requests, on_state)

    def _stepwise(self, requests: Sequence[PlannedRequest], on_state: OnState) -> Sequence[Media | Streamed]:
        if not isinstance(self._runner, StepwiseRunner):
            raise UsageError(f"the runner {type(self._runner).__name__} has no execute_stepwise")
        return self._runner.execute_stepwise(requests, on_state)

    def _asking(self, message: ExecuteStepwise, inbox: Inbox) -> OnState:
        """Hands every step over and waits for the executor's word on it."""
        rpc_id = message.rpc_id

        def on_state(state: StepState) -> bool:
            self._show(rpc_id, message.requests, state)
            self._platform.wait_for(self._platform.record_device_event())
            self._hand_over(rpc_id, state, message.latents)
            decision = inbox.decision(rpc_id, state.step)
            if isinstance(decision, Cancel):
                raise RequestCancelled(f"cancelled at step {state.step} of {state.total}")
            return not decision.stop

        return on_state

    def _show(self, rpc_id: int, requests: Sequence[PlannedRequest], state: StepState) -> None:
        """Pass the pictures of this step on, and the news that there will be none."""
        step, total = state.step, state.total
        if state.fault is not None:
            self._send(Preview(rpc_id=rpc_id, request_id=requests[0].id, step=step, total=total, fault=state.fault))
        if state.pictures:
            done = self._platform.record_device_event()
            for picture in state.pictures:
                message = Preview(rpc_id=rpc_id, request_id=requests[picture.owner].id, step=step, total=total)
                self._outbox.show(Sketch(message, picture.pixels, done))

    def _hand_over(self, rpc_id: int, state: StepState, wanted: bool) -> None:
        """STEP_OUTPUT; the descriptor of a new slot rides along."""
        latents, slot = self._written(state.latents) if wanted and state.latents is not None else (None, None)
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
            self._pool.shared(slot)

    def _written(self, latents: torch.Tensor) -> tuple[StepLatents, Slot | None]:
        """`latents` as float32 in host memory: inline if they are small, else in a slot."""
        host = latents.detach().to("cpu", torch.float32)
        buffer = Buffer(self._pool)
        flat = torch.frombuffer(buffer.allocate(host.nbytes), dtype=torch.float32, count=host.numel())
        flat.view(host.shape).copy_(host)
        shape, slot = tuple(host.shape), buffer.slot
        if slot is None:
            return StepLatents(shape=shape, inline=bytes(buffer.inline or b"")), None
        return StepLatents(shape=shape, slot=slot.ref(host.nbytes, self._pool.take_retired())), slot

    def _send(self, message: FromWorker) -> None:
        self._channel.send(encode(message))
