"""The real runner on a device that is too small; in a module of its own, because it loads diffusers."""

from collections.abc import Callable
from typing import Any

import torch

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.transport.messages import Loaded
from omni_cli.worker.runner import DiffusersRunner


class OneAtATime(DiffusersRunner):
    """The model of `--model` on a device that has memory for calls of one sample only."""

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        report: Callable[[str], None],
        identified: Callable[[Loaded], None] | None = None,
    ) -> Loaded:
        """As DiffusersRunner, then make memory scarce where the noise of a call is drawn."""
        loaded = super().load(model, engine, report, identified)
        pipeline = self._model.pipeline
        draw = pipeline.prepare_latents

        def scarce(*args: Any, **keywords: Any) -> Any:
            latents = draw(*args, **keywords)
            if len(latents) > 1:
                raise torch.OutOfMemoryError("tried to allocate 9.00 GiB")
            return latents

        pipeline.prepare_latents = scarce
        return loaded
