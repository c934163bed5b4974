"""Runners that go wrong when a prompt says so, for workers that are real processes."""

import os
import signal
import time
from collections.abc import Callable, Sequence

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.media import Media
from omni_cli.request import PlannedRequest
from omni_cli.transport.messages import Loaded
from omni_cli.worker.null import NullRunner


class Broken(NullRunner):
    """`raise`, `hang`, `kill` and `nan` in the first prompt of a call do what they say."""

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        report: Callable[[str], None],
        identified: Callable[[Loaded], None] | None = None,
    ) -> Loaded:
        """A model named "nowhere" is not there."""
        if model.model == "nowhere":
            raise OSError("nowhere is not there")
        return super().load(model, engine, report)

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], stop: Callable[[], bool]
    ) -> list[Media]:
        """What the prompt says, else a grey picture."""
        match requests[0].request.prompt:
            case "raise":
                raise ValueError("no")
            case "hang":
                time.sleep(600)
            case "kill":
                os.write(2, b"last words\n")
                os.kill(os.getpid(), signal.SIGSEGV)
        medias = super().execute_model(requests, on_step, stop)
        for request, media in zip(requests, medias, strict=True):
            if request.request.prompt == "nan":
                media.data[...] = float("nan")
        return medias
