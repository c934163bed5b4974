"""A runner without a model, for benchmarks of the engine itself and for tests."""

import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import RequestCancelled
from omni_cli.media import NORMALIZED, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.models.cards import Card, SizeRule
from omni_cli.request import GenerationRequest, ModelInfo, PlannedRequest
from omni_cli.transport.messages import Loaded
from omni_cli.worker.runner_protocol import IsCancelled, OnFrames, OnIdentified, OnProgress, OnState, OnStep, StepState

DEFAULTS = GenerationRequest(height=64, width=64, num_frames=1, num_inference_steps=1, fps=8.0)


class NullRunner:
    """A runner whose samples have one grey level, seed mod 256, in all pixels.

    `extra={"forward_seconds": s}` makes a call take s seconds, spread over its steps.
    """

    def __init__(self) -> None:
        self._device = torch.device("cpu")

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        on_progress: OnProgress,
        on_identified: OnIdentified | None = None,
    ) -> Loaded:
        """Set the device; there is nothing to load."""
        on_progress("nothing")
        self._device = _device(model)
        return self.identify(model, on_progress)

    def identify(self, model: ModelConfig, on_progress: OnProgress) -> Loaded:
        """Return the facts of a model of any name."""
        dtype = "float32" if model.dtype == "auto" else model.dtype
        return Loaded(
            info=ModelInfo(id=model.title, revision=None, pipeline="Null", dtype=dtype),
            card=Card(pipeline="Null", kind=Kind.VIDEO, sizes=SizeRule(multiple=1), defaults=DEFAULTS, batchable=True),
            device=str(_device(model)),
            versions={"torch": str(torch.__version__)},
        )

    def prefetch(self, requests: Sequence[PlannedRequest]) -> None:
        """Do nothing: inputs are not read."""

    def discard(self, requests: Sequence[PlannedRequest]) -> None:
        """Do nothing: inputs are not read."""

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: OnStep, is_cancelled: IsCancelled
    ) -> list[Media]:
        """Return one Media per request, a video if it has more than one frame, else an image: float32 in -1..1.

        Raises RequestCancelled if `is_cancelled()` is True after a step.
        """

        def on_state(state: StepState) -> bool:
            on_step(state.step, state.total)
            if is_cancelled():
                raise RequestCancelled(f"cancelled at step {state.step} of {state.total}")
            return True

        return self.execute_stepwise(requests, on_state)

    def execute_stepwise(self, requests: Sequence[PlannedRequest], on_state: OnState) -> list[Media]:
        """Return the same step by step; all latents equal the number of the step."""
        total = max(request.request.num_inference_steps or 1 for request in requests)
        seconds = max(float((request.request.extra or {}).get("forward_seconds", 0.0)) for request in requests)
        for step in range(1, total + 1):
            if seconds:
                time.sleep(seconds / total)
            latents = torch.full((len(requests), 4, 2, 2), float(step))
            if not on_state(StepState(step, total, total - step, 1 - step / total, latents)) and step < total:
                return [replace(self._media(request), stopped_at=step) for request in requests]
        return [self._media(request) for request in requests]

    def _media(self, planned: PlannedRequest) -> Media:
        request = planned.request
        height, width = request.height or 64, request.width or 64
        frames = request.num_frames or 1
        levels = torch.tensor([seed % 256 for seed in planned.seeds], dtype=torch.float32, device=self._device)
        shape = (3, frames, height, width) if frames > 1 else (3, height, width)
        data = (levels / 127.5 - 1).view(-1, *(1 for _ in shape)).repeat(1, *shape)
        kind, layout = (Kind.VIDEO, Layout.BCTHW) if frames > 1 else (Kind.IMAGE, Layout.BCHW)
        return Media(MediaSpec(kind, layout, Encoding.FLOAT, NORMALIZED), data)

    def stream_to(self, on_frames: OnFrames | None) -> None:
        """Do nothing: media are made whole."""

    def synchronize(self) -> None:
        """Do nothing: the forward pass waits for its own work."""

    def sleep(self) -> None:
        """Do nothing: there are no weights."""

    def wake_up(self) -> None:
        """Do nothing: there are no weights."""

    def close(self) -> None:
        """Do nothing: there is no model."""


def _device(model: ModelConfig) -> torch.device:
    return torch.device("cpu" if model.device == "auto" else model.device)
