"""Runners for tests of whole runs: `--runner tests.runners:Class`, with the repository as working folder."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.log import logger
from omni_cli.media import NORMALIZED, ColorModel, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.request import PlannedRequest
from omni_cli.transport.messages import Loaded
from omni_cli.worker.null import NullRunner


class NeverLoads(NullRunner):
    """Runner whose loading never ends."""

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        report: Callable[[str], None],
        identified: Callable[[Loaded], None] | None = None,
    ) -> Loaded:
        """Report, then hang."""
        report("for ever")
        time.sleep(1000)
        return super().load(model, engine, report)


class Picky(NullRunner):
    """Runner that raises for the prompt "fail"."""

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], stop: Callable[[], bool]
    ) -> list[Media]:
        """Render like NullRunner, slower; raise ValueError for the prompt "fail"."""
        time.sleep(0.05)
        if any(request.request.prompt == "fail" for request in requests):
            raise ValueError("this prompt cannot be drawn")
        return super().execute_model(requests, on_step, stop)


class Forthcoming(NullRunner):
    """Runner that reports its facts before it is loaded; with HANG in the environment, loading never ends."""

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        report: Callable[[str], None],
        identified: Callable[[Loaded], None] | None = None,
    ) -> Loaded:
        """Report the facts, then load."""
        facts = super().load(model, engine, report)
        assert identified is not None
        identified(facts)
        if "HANG" in os.environ:
            time.sleep(1000)
        return facts


class Invalid(NullRunner):
    """Runner with invalid outputs: prompts "nan" and "inf" spoil one value, "two" makes two colours; notes "halved"."""

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], stop: Callable[[], bool]
    ) -> list[Media]:
        """Render like NullRunner, then spoil values as the prompt says."""
        medias = super().execute_model(requests, on_step, stop)
        for request, media in zip(requests, medias, strict=True):
            match request.request.prompt:
                case "nan" | "inf" as value:
                    media.data[0, 0, ..., 1, 1] = float(value)
                case "two":
                    media.data[0, 0, ..., 1, 1] = 1.0
        return [replace(media, notes=("halved",)) for media in medias]


class Remarking(NullRunner):
    """Runner whose outputs have the note "odd 1", "odd 2", ...; the prompt "dark" is blackened, "plain" has no note."""

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        report: Callable[[str], None],
        identified: Callable[[Loaded], None] | None = None,
    ) -> Loaded:
        """Warn as the worker does, then load."""
        logger.warning("loading %s: an odd file\n\ud800", model.title)
        return super().load(model, engine, report)

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], stop: Callable[[], bool]
    ) -> list[Media]:
        """Render like NullRunner, with notes."""
        medias = []
        for request, media in zip(requests, super().execute_model(requests, on_step, stop), strict=True):
            notes = () if request.request.prompt == "plain" else (f"odd {request.index}",)
            nsfw = "blackened: it" if request.request.prompt == "dark" else ""
            medias.append(replace(media, notes=(*notes, *filter(None, [nsfw])), nsfw=nsfw))
        return medias


class Secretive(NullRunner):
    """Runner whose facts are known only once it is loaded."""

    def identify(self, model: ModelConfig, report: Callable[[str], None]) -> Loaded | None:  # type: ignore[override]
        """Return None."""
        return None

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        report: Callable[[str], None],
        identified: Callable[[Loaded], None] | None = None,
    ) -> Loaded:
        """Return the facts of NullRunner."""
        return NullRunner().load(model, engine, report)


class Sounding(NullRunner):
    """Runner of clips with a second of 8000 Hz sound.

    The level of the sound is the seed's; frame k is k/100 of the range brighter than frame 0.
    """

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], stop: Callable[[], bool]
    ) -> list[Media]:
        """Render like NullRunner, brightening over the frames, with sound."""
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
