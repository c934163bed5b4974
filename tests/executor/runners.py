"""Runners that go wrong when a prompt says so, for workers that are real processes."""

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import RequestCancelled
from omni_cli.media import Media
from omni_cli.request import PlannedRequest
from omni_cli.transport.messages import Loaded
from omni_cli.worker.null import NullRunner
from omni_cli.worker.protocol import Sink, Streamed


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


class Slices(NullRunner):
    """Lets its frames leave in twos, each of a level of its own: that of its sample plus its number.

    After two frames, what the first prompt says: `nan` spoils those of the first request that follow, `kill PATH` ends the
    process unless PATH is there already, `whole` begins again, whole; `wait PATH` waits until PATH is there or it is cancelled.
    """

    def stream_to(self, sink: Sink | None) -> None:
        """Where the frames may go."""
        self._sink = sink

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], stop: Callable[[], bool]
    ) -> Sequence[Media | Streamed]:
        """As NullRunner, in twos."""
        medias = [self._graded(media) for media in super().execute_model(requests, on_step, stop)]
        if self._sink is None:
            return medias
        what, _, path = (requests[0].request.prompt or "").partition(" ")
        frames = medias[0].data.shape[2]
        for frame in range(0, frames, 2):
            if frame == 2:
                self._do(what, Path(path), stop)
                if what == "whole":
                    return medias
            for owner, media in enumerate(medias):
                part = media.data[:, :, frame : frame + 2]
                if what == "nan" and frame and not owner:
                    part[..., 1, 1] = float("nan")
                self._sink.send(owner, replace(media, data=part, first=(0, frame)))
        return [
            Streamed(media.spec, (media.batch, frames, *media.data.shape[3:], 3), ("streamed",)) for media in medias
        ]

    @staticmethod
    def _graded(media: Media) -> Media:
        numbers = torch.arange(media.data.shape[2], dtype=torch.float32).view(1, 1, -1, 1, 1)
        return replace(media, data=media.data + numbers / 127.5)

    @staticmethod
    def _do(what: str, path: Path, stop: Callable[[], bool]) -> None:
        if what == "kill" and not path.exists():
            path.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        while what == "wait" and not path.exists():
            if stop():
                raise RequestCancelled("cancelled between two frames")
            time.sleep(0.01)
