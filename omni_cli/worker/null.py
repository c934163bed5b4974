"""A runner without a model: media of the asked size at once. For benches of the engine itself, and for tests."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import RequestCancelled
from omni_cli.media import NORMALIZED, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.models.cards import Card, SizeRule
from omni_cli.request import GenerationRequest, ModelInfo, PlannedRequest
from omni_cli.transport.messages import Loaded
from omni_cli.worker.protocol import OnState, StepState

DEFAULTS = GenerationRequest(height=64, width=64, num_frames=1, num_inference_steps=1, fps=8.0)


class NullRunner:
    """Every sample is one grey level, told by its seed: level = seed mod 256, the same for all pixels.

    `extra={"seconds": s}` makes a request take s seconds, as a stand-in for a forward pass.
    """

    def __init__(self) -> None:
        self._device = torch.device("cpu")

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        report: Callable[[str], None],
        identified: Callable[[Loaded], None] | None = None,
    ) -> Loaded:
        """Take the device's name; nothing else to load."""
        report("nothing")
        self._device = _device(model)
        return self.identify(model, report)

    def identify(self, model: ModelConfig, report: Callable[[str], None]) -> Loaded:
        """A model of any name."""
        dtype = "float32" if model.dtype == "auto" else model.dtype
        return Loaded(
            info=ModelInfo(id=model.title, revision=None, pipeline="Null", dtype=dtype),
            card=Card(pipeline="Null", kind=Kind.VIDEO, sizes=SizeRule(multiple=1), defaults=DEFAULTS, batchable=True),
            device=str(_device(model)),
            versions={"torch": str(torch.__version__)},
        )

    def expect(self, requests: Sequence[PlannedRequest]) -> None:
        """Nothing is read."""

    def forget(self, requests: Sequence[PlannedRequest]) -> None:
        """Nothing was read."""

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], stop: Callable[[], bool]
    ) -> list[Media]:
        """One Media per request: video if it has more than one frame, else image. float32, -1..1."""

        def on_state(state: StepState) -> bool:
            on_step(state.step, state.total)
            if stop():
                raise RequestCancelled(f"cancelled at step {state.step} of {state.total}")
            return True

        return self.execute_stepwise(requests, on_state)

    def execute_stepwise(self, requests: Sequence[PlannedRequest], on_state: OnState) -> list[Media]:
        """The same step by step; the latents are the number of the step."""
        total = max(request.request.num_inference_steps or 1 for request in requests)
        pause = max(_seconds(request.request) for request in requests) / total
        for step in range(1, total + 1):
            if pause:
                time.sleep(pause)
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

    def synchronize(self) -> None:
        """Nothing runs behind the caller's back."""

    def sleep(self) -> None:
        """There are no weights."""

    def wake_up(self) -> None:
        """There are no weights."""

    def close(self) -> None:
        """There is nothing to drop."""


def _device(model: ModelConfig) -> torch.device:
    return torch.device("cpu" if model.device == "auto" else model.device)


def _seconds(request: GenerationRequest) -> float:
    return float((request.extra or {}).get("seconds", 0.0))
