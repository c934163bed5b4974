"""What belongs to one loaded model in a runner, and what moves with it on and off the device."""

from dataclasses import dataclass
from typing import Self

import torch

from omni_cli import platforms
from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.platforms.base import Platform
from omni_cli.worker.loader import LoadedPipeline
from omni_cli.worker.pipeline.call_notes import CallNotes, Remarks
from omni_cli.worker.pipeline.lora_adapters import LoraAdapters
from omni_cli.worker.pipeline.oom import OomLadder
from omni_cli.worker.pipeline.prompt_embeds_cache import PromptEmbedsCache
from omni_cli.worker.pipeline.weighted_prompts import WeightedPrompts
from omni_cli.worker.preview import Previewer
from omni_cli.worker.runner_protocol import OnProgress
from omni_cli.worker.streaming_decode import FrameStreamer


@dataclass(slots=True)
class ModelState:
    """Everything that exists once per loaded model."""

    loaded: LoadedPipeline
    platform: Platform
    prompt_embeds: PromptEmbedsCache
    weighted_prompts: WeightedPrompts
    call_notes: CallNotes
    adapters: LoraAdapters
    oom_ladder: OomLadder
    streamer: FrameStreamer
    previewer: Previewer | None

    @classmethod
    def of(cls, loaded: LoadedPipeline, model: ModelConfig, engine: EngineConfig, on_progress: OnProgress) -> Self:
        """Return the state of a model that has just been loaded."""
        pipeline = loaded.pipeline
        platform, _ = platforms.resolve(str(loaded.device))
        remarks = Remarks()
        prompt_embeds = PromptEmbedsCache(engine.prompt_cache_bytes, remarks)
        prompt_embeds.attach(pipeline)
        return cls(
            loaded=loaded,
            platform=platform,
            prompt_embeds=prompt_embeds,
            weighted_prompts=WeightedPrompts(pipeline, getattr(torch, loaded.info.dtype), prompt_embeds),
            call_notes=CallNotes(pipeline, loaded.card, remarks),
            adapters=LoraAdapters(pipeline, on_change=prompt_embeds.clear),
            oom_ladder=OomLadder(pipeline, loaded.device, platform, model.tuning.offload != "none"),
            streamer=FrameStreamer(pipeline, loaded.card.output_type),
            previewer=Previewer(loaded, engine.preview_every, on_progress) if engine.preview_every else None,
        )

    @property
    def device_bytes(self) -> int:
        """The bytes of weights that `sleep` moves to host memory."""
        is_on_host = self.loaded.device.type == "cpu" or self.oom_ladder.offloads
        return 0 if is_on_host else self.loaded.nbytes

    def sleep(self) -> None:
        """Move the weights to host memory."""
        self.prompt_embeds.clear()
        if self.oom_ladder.offloads:
            self.loaded.pipeline.maybe_free_model_hooks()
        else:
            self.loaded.pipeline.to("cpu")

    def wake_up(self) -> None:
        """Move the weights back to the device; with model offload, the pipeline does that itself."""
        if not self.oom_ladder.offloads:
            self.loaded.pipeline.to(self.loaded.device)
