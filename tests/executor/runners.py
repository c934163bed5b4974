"""Runners that go wrong when a prompt says so, for workers that are real processes."""

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.media import Media
from omni_cli.request import PlannedRequest
from omni_cli.transport.messages import Loaded
from omni_cli.worker.null import NullRunner


class Expecting(NullRunner):
    """The forward of "a" ends when "b" has been expected; the prompt "told" raises with what was forgotten so far."""

    def __init__(self) -> None:
        super().__init__()
        self._b = threading.Event()
        self._forgotten: list[str] = []

    def expect(self, requests: Sequence[PlannedRequest]) -> None:
        """Look for "b"."""
        if any(request.id == "b" for request in requests):
            self._b.set()

    def forget(self, requests: Sequence[PlannedRequest]) -> None:
        """Note them."""
        self._forgotten += [request.id for request in requests]

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], stop: Callable[[], bool]
    ) -> list[Media]:
        """Wait for "b" in the forward of "a"."""
        if requests[0].id == "a" and not self._b.wait(60):
            raise TimeoutError("b was not expected while a was in its forward")
        if requests[0].request.prompt == "told":
            raise ValueError(" ".join(self._forgotten))
        return super().execute_model(requests, on_step, stop)


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
