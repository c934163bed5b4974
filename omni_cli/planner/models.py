"""The models of a run, by the names that requests give them: which settings each is loaded with, and what is known of it.

    name in a row ──key──> key ──config──> ModelConfig ──look──> Facts (card; info and versions where an engine was asked)

The run's own model has the key None, whichever way a row spells it, so that rows, batches and fingerprints are the same
whether a model was named by a row or by `--model`.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import structs

from omni_cli.config import ModelConfig, OutputConfig
from omni_cli.errors import ModelLoadError, Problem
from omni_cli.models.cards import Card
from omni_cli.models.registry import DEMO, expanded, mode_of
from omni_cli.models.source import reason_of
from omni_cli.planner.located import Located
from omni_cli.request import GenerationRequest, Made, ModelInfo
from omni_cli.writers.record import encoding_of, versions

MAX_MODELS = 100
"""Models that one run may name: each is looked at before anything runs, and a file of prompts is data from strangers."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What planning knows of a model; `card` is None where only loading tells, `info` where no engine was asked."""

    card: Card | None
    info: ModelInfo | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    device: str = ""


Look = Callable[[ModelConfig], Facts]
"""Finds the facts of a model; ModelLoadError if there is no such model."""


class Models:
    """Grows with every name that is asked for; each model is looked at once."""

    def __init__(self, own: ModelConfig, base: Path, look: Look) -> None:
        """`own` is the run's model; a path in a row that starts at `base`, where it exists there, is meant that way."""
        self._own, self._base, self._look = own, base, look
        self._keys: dict[str | None, str | None] = {None: None}
        self._configs: dict[str | None, ModelConfig] = {None: own}
        self._facts: dict[str | None, Facts | ModelLoadError] = {}
        self._made: dict[str | None, Made] = {}
        self.first: dict[str | None, Located] = {}

    def key(self, name: str | None) -> str | None:
        """The key of the model that a row calls `name`."""
        if name not in self._keys:
            assert name is not None
            config = self._config(name)
            key = None if config.model == _place(self._own.model, Path()) else config.name
            self._keys[name] = key
            self._configs.setdefault(key, config)
        return self._keys[name]

    def config(self, key: str | None) -> ModelConfig:
        """The settings that the model `key` is loaded with."""
        return self._configs[key]

    def facts(self, key: str | None) -> Facts:
        """What is known of the model `key`; the same every time, and so is the ModelLoadError if it is not there."""
        if key not in self._facts:
            try:
                self._facts[key] = self._look(self._configs[key])
            except ModelLoadError as error:
                self._facts[key] = error
        found = self._facts[key]
        if isinstance(found, ModelLoadError):
            raise found
        return found

    def problems(self, located: Located) -> list[Problem]:
        """What is wrong with the model that a row names. Remembers which row was the first to name it."""
        name = located.request.model
        if name not in self._keys and len(self._keys) > MAX_MODELS:
            return [located.problem("model", f"is one too many: a run takes {MAX_MODELS}", "part the file by model")]
        key = self.key(name)
        self.first.setdefault(key, located)
        try:
            self.facts(key)
        except ModelLoadError as error:
            if key is None:
                raise
            return [self.problem(key, located, error)]
        return []

    def problem(self, key: str | None, located: Located, error: ModelLoadError) -> Problem:
        """`error`, which says why the model `key` cannot be had, as a problem of the row that names it."""
        return located.problem("model", reason_of(error, self._configs[key].model), "")

    def model_of(self, request: GenerationRequest) -> ModelConfig:
        """The settings of the model of a planned request."""
        return self._configs[request.model]

    def info_of(self, request: GenerationRequest) -> ModelInfo:
        """What a row says of the model of a planned request."""
        info = self.facts(request.model).info
        assert info is not None, "rows are made for models that an engine knows"
        return info

    def made_of(self, request: GenerationRequest, output: OutputConfig) -> Made:
        """What a row says of how a planned request was made, beyond its model; `output` is how it was written."""
        if request.model not in self._made:
            facts, config = self.facts(request.model), self._configs[request.model]
            self._made[request.model] = Made(
                model=_place(config.model, Path()),
                device=facts.device,
                versions={**facts.versions, **versions()},
                tuning=msgspec.to_builtins(config.tuning),
            )
        return structs.replace(self._made[request.model], encoding=encoding_of(request.format or "", output))

    def _config(self, name: str) -> ModelConfig:
        """Flags that say how a model is loaded go for all; those that say which, and trust, for the one of the command line."""
        place = _place(name, self._base)
        called = name if place == name or "://" in name else os.path.normpath(name)
        tuning = structs.replace(self._own.tuning, components={})
        return ModelConfig(model=place, name=called, dtype=self._own.dtype, device=self._own.device, tuning=tuning)


def _place(name: str, base: Path) -> str:
    """`name` as an absolute path if it is one from `base`; as it is if it names something else: the demo, a model on a hub."""
    if name == DEMO:
        return name
    path = base / expanded(name)
    return os.path.realpath(path) if mode_of(path) else name
