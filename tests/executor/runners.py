"""Runners that fail on demand, for real worker processes."""

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
from omni_cli.log import logger
from omni_cli.media import Media
from omni_cli.request import PlannedRequest
from omni_cli.transport.messages import Loaded
from omni_cli.worker.null import NullRunner
from omni_cli.worker.runner_protocol import OnFrames


class PrefetchRunner(NullRunner):
    """Blocks the forward of "a" until "b" is prefetched; the prompt "discarded" raises with the discarded ids."""

    def __init__(self) -> None:
        super().__init__()
        self._prefetched = threading.Event()
        self._discarded: list[str] = []

    def prefetch(self, requests: Sequence[PlannedRequest]) -> None:
        """Unblock the forward of "a" if "b" is among `requests`."""
        if any(request.id == "b" for request in requests):
            self._prefetched.set()

    def discard(self, requests: Sequence[PlannedRequest]) -> None:
        """Record the ids."""
        self._discarded += [request.id for request in requests]

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], is_cancelled: Callable[[], bool]
    ) -> list[Media]:
        """Return grey pictures. Raises TimeoutError if "b" is not prefetched in the forward of "a"."""
        if requests[0].id == "a" and not self._prefetched.wait(60):
            raise TimeoutError("b was not prefetched during the forward of a")
        if requests[0].request.prompt == "discarded":
            raise ValueError(" ".join(self._discarded))
        return super().execute_model(requests, on_step, is_cancelled)


class WarningRunner(NullRunner):
    """Warns when it is created, as a backend does when it is imported."""

    def __init__(self) -> None:
        super().__init__()
        logger.warning("the driver is older than the backend")


class FaultyRunner(NullRunner):
    """Raises, hangs, dies or returns NaN for the prompts "raise", "hang", "kill" and "nan".

    "threads" raises with the number of intra-op threads.
    """

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        on_progress: Callable[[str], None],
        on_identified: Callable[[Loaded], None] | None = None,
    ) -> Loaded:
        """Load any model. Raises OSError for "nowhere"."""
        if model.model == "nowhere":
            raise OSError("nowhere is not there")
        return super().load(model, engine, on_progress)

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], is_cancelled: Callable[[], bool]
    ) -> list[Media]:
        """Return grey pictures, unless the first prompt of the call names a fault."""
        match requests[0].request.prompt:
            case "raise":
                raise ValueError("no")
            case "threads":
                raise ValueError(f"{torch.get_num_threads()} threads")
            case "hang":
                time.sleep(600)
            case "kill":
                os.write(2, b"last words\n")
                os.kill(os.getpid(), signal.SIGSEGV)
        medias = super().execute_model(requests, on_step, is_cancelled)
        for request, media in zip(requests, medias, strict=True):
            if request.request.prompt == "nan":
                media.data[...] = float("nan")
        return medias


class KilledLoadRunner(NullRunner):
    """Is killed, as by the out-of-memory killer, in every load until the file `model.model` has `model.revision` lines.

    Each load that is killed adds a line.
    """

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        on_progress: Callable[[str], None],
        on_identified: Callable[[Loaded], None] | None = None,
    ) -> Loaded:
        """Load the null model, or send SIGKILL to this process."""
        deaths = Path(str(model.model))
        if len(deaths.read_text().splitlines()) < int(model.revision or 0):
            with deaths.open("a") as file:
                file.write("killed\n")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().load(model, engine, on_progress)


class StreamingRunner(NullRunner):
    """Streams its frames in twos. The level of a frame is that of its sample plus its number.

    After two frames the first prompt of the call applies: "nan" puts NaN into the first request's frames from there on,
    "kill PATH" kills the process unless PATH exists, "whole" returns the whole clip instead, and "wait PATH" waits
    until PATH exists or the call is cancelled.
    """

    def stream_to(self, on_frames: OnFrames | None) -> None:
        """Pass frames on to `on_frames`."""
        self._on_frames = on_frames

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], is_cancelled: Callable[[], bool]
    ) -> list[Media]:
        """Stream the clips of NullRunner, or return them if they are not to be streamed."""
        medias = [self._with_levels(media) for media in super().execute_model(requests, on_step, is_cancelled)]
        if self._on_frames is None:
            return medias
        fault, _, path = (requests[0].request.prompt or "").partition(" ")
        frames = medias[0].data.shape[2]
        for frame in range(0, frames, 2):
            if frame == 2:
                self._kill_or_wait(fault, Path(path), is_cancelled)
                if fault == "whole":
                    return medias
            for owner, media in enumerate(medias):
                part = media.data[:, :, frame : frame + 2]
                if fault == "nan" and frame and not owner:
                    part[..., 1, 1] = float("nan")
                self._on_frames(owner, replace(media, data=part, offset=(0, frame)))
        return [replace(media, notes=("streamed",), streamed=True) for media in medias]

    @staticmethod
    def _with_levels(media: Media) -> Media:
        numbers = torch.arange(media.data.shape[2], dtype=torch.float32).view(1, 1, -1, 1, 1)
        return replace(media, data=media.data + numbers / 127.5)

    @staticmethod
    def _kill_or_wait(fault: str, path: Path, is_cancelled: Callable[[], bool]) -> None:
        if fault == "kill" and not path.exists():
            path.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        while fault == "wait" and not path.exists():
            if is_cancelled():
                raise RequestCancelled("cancelled between two frames")
            time.sleep(0.01)
