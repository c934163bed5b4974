"""Runners for tests of whole runs; named by `--runner tests.runners:Class` in a process whose folder is the repository."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.media import NORMALIZED, ColorModel, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.request import PlannedRequest
from omni_cli.transport.messages import Loaded
from omni_cli.worker.null import NullRunner


class NeverLoads(NullRunner):
    """Loading takes for ever."""

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        report: Callable[[str], None],
        identified: Callable[[Loaded], None] | None = None,
    ) -> Loaded:
        """Say so, then hang."""
        report("for ever")
        time.sleep(1000)
        return super().load(model, engine, report)


class Picky(NullRunner):
    """Raises for the prompt "fail"."""

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], stop: Callable[[], bool]
    ) -> list[Media]:
        """As NullRunner, slower, unless the prompt is "fail"."""
        time.sleep(0.05)
        if any(request.request.prompt == "fail" for request in requests):
            raise ValueError("this prompt cannot be drawn")
        return super().execute_model(requests, on_step, stop)


class Forthcoming(NullRunner):
    """Says what it is before it is loaded; with HANG in the environment, loading never ends."""

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        report: Callable[[str], None],
        identified: Callable[[Loaded], None] | None = None,
    ) -> Loaded:
        """Tell the facts, then load."""
        facts = super().load(model, engine, report)
        assert identified is not None
        identified(facts)
        if "HANG" in os.environ:
            time.sleep(1000)
        return facts


class Invalid(NullRunner):
    """Draws what the prompt says: "nan" and "inf" spoil one value, "two" has two colours; its forward always says "halved"."""

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], stop: Callable[[], bool]
    ) -> list[Media]:
        """As NullRunner, then spoilt."""
        medias = super().execute_model(requests, on_step, stop)
        for request, media in zip(requests, medias, strict=True):
            match request.request.prompt:
                case "nan" | "inf" as value:
                    media.data[0, 0, ..., 1, 1] = float(value)
                case "two":
                    media.data[0, 0, ..., 1, 1] = 1.0
        return [replace(media, notes=("halved",)) for media in medias]


class Secretive(NullRunner):
    """What it is, it tells only when it is loaded."""

    def identify(self, model: ModelConfig, report: Callable[[str], None]) -> Loaded | None:  # type: ignore[override]
        """Nothing."""
        return None

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        report: Callable[[str], None],
        identified: Callable[[Loaded], None] | None = None,
    ) -> Loaded:
        """The facts of NullRunner."""
        return NullRunner().load(model, engine, report)


class Sounding(NullRunner):
    """A clip with a second of sound at 8000 Hz, one level told by its seed; frame k is k/100 of the range brighter than frame 0."""

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], stop: Callable[[], bool]
    ) -> list[Media]:
        """As NullRunner, brightening, with sound."""
        spec = MediaSpec(Kind.AUDIO, Layout.BCS, Encoding.FLOAT, NORMALIZED, ColorModel.NONE, sample_rate=8000)
        result = []
        for request, media in zip(requests, super().execute_model(requests, on_step, stop), strict=True):
            data = media.data * 0.5
            if media.spec.kind is Kind.VIDEO:
                data += torch.arange(data.shape[2]).view(1, 1, -1, 1, 1) * 0.02
            levels = torch.tensor([seed % 256 / 256 for seed in request.seeds])
            sound = Media(spec, levels.view(-1, 1, 1).repeat(1, 2, 8000))
            result.append(replace(media, data=data, audio=sound if media.spec.kind is Kind.VIDEO else None))
        return result
