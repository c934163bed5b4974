"""The models of a run by the names that rows give them: how each is loaded, and what is known of it.

    name in a row ──key──> key ──config──> ModelConfig ──lookup──> ModelFacts (card; info and versions from an engine)

The run's own model has the key None however a row spells it, so that rows, batches and fingerprints are the same
whether a row or `--model` names a model.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from omni_cli.config import ModelConfig, OutputConfig, Tuning
from omni_cli.errors import Diagnostic, ModelLoadError
from omni_cli.models.cards import Card
from omni_cli.models.model_files import without_flag
from omni_cli.models.registry import real_path
from omni_cli.planner.fingerprint import weighting_versions
from omni_cli.planner.resolve import SourcedRequest
from omni_cli.request import GenerationRequest, ModelInfo, Provenance
from omni_cli.storage.user_path import expand_user
from omni_cli.writers.formats import encoder_versions, encoding_settings, output_of

MAX_MODELS = 100
"""Models per run: each is looked up before anything runs, and a prompt file may come from anyone."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What planning knows of a model. `card` is None if unknown before loading, `info` if no engine reported it;
    `devices` is how many workers may be spread over."""

    card: Card | None
    info: ModelInfo | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    device: str = ""
    devices: int = 1


ModelLookup = Callable[[ModelConfig], ModelFacts]
"""Returns the facts of a model. Raises ModelLoadError if there is no such model."""


class Models:
    """The models that rows have named so far; each is looked up once."""

    def __init__(self, default: ModelConfig, base: Path, lookup: ModelLookup) -> None:
        """`default` is the run's own model. A relative path in a row starts at `base` if it exists there."""
        self._default, self._base, self._lookup = default, base, lookup
        self._keys: dict[str | None, str | None] = {None: None}
        self._keys_of_paths: dict[str, str | None] = {real_path(default.model, Path()): None}
        self._configs: dict[str | None, ModelConfig] = {None: default}
        self._facts: dict[str | None, ModelFacts | ModelLoadError] = {}
        self._made: dict[str | None, Provenance] = {}
        self.first_rows: dict[str | None, SourcedRequest] = {}
        """Key of each model that `problems` saw -> the first row that names it, in their order."""

    def key(self, name: str | None) -> str | None:
        """Return the key of the model that a row calls `name`."""
        if name not in self._keys:
            assert name is not None
            config = self._config_of_name(name)
            key = self._keys_of_paths.setdefault(config.model, config.name)
            self._keys[name] = key
            self._configs.setdefault(key, config)
        return self._keys[name]

    def config(self, key: str | None) -> ModelConfig:
        """Return the settings that the model `key` is loaded with."""
        return self._configs[key]

    def facts(self, key: str | None) -> ModelFacts:
        """Return what is known of the model `key`. Raises ModelLoadError if it is not there."""
        if key not in self._facts:
            try:
                self._facts[key] = self._lookup(self._configs[key])
            except ModelLoadError as error:
                self._facts[key] = error
        facts = self._facts[key]
        if isinstance(facts, ModelLoadError):
            raise facts
        return facts

    def problems(self, row: SourcedRequest) -> list[Diagnostic]:
        """Return what is wrong with the model that `row` names. Raises ModelLoadError for the run's own model."""
        name = row.request.model
        if name not in self._keys and len(self._keys) > MAX_MODELS:
            return [row.problem("model", f"too many models: at most {MAX_MODELS} per run", "split the file by model")]
        key = self.key(name)
        self.first_rows.setdefault(key, row)
        try:
            self.facts(key)
        except ModelLoadError as error:
            if key is None:
                raise
            return [self.problem(key, row, error)]
        return []

    def problem(self, key: str | None, row: SourcedRequest, error: ModelLoadError) -> Diagnostic:
        """Return `error`, the failure to load the model `key`, as a problem of the row that names it."""
        return row.problem("model", without_flag(error, self._configs[key].model))

    def model_of(self, request: GenerationRequest) -> ModelConfig:
        """Return the settings of the model of a planned request."""
        return self._configs[request.model]

    def info_of(self, request: GenerationRequest) -> ModelInfo:
        """Return what a manifest row records of the model of a planned request."""
        info = self.facts(request.model).info
        assert info is not None, "rows are made for models that an engine reported"
        return info

    def provenance_of(self, request: GenerationRequest, output: OutputConfig) -> Provenance:
        """Return what a manifest row records of the environment of a planned request; `output` is how it is written."""
        if request.model not in self._made:
            facts, config = self.facts(request.model), self._configs[request.model]
            self._made[request.model] = Provenance(
                model=real_path(config.model, Path()),
                device=facts.device,
                versions={**facts.versions, **encoder_versions()},
                tuning=_recorded_tuning(config.tuning),
            )
        made, encoding = self._made[request.model], encoding_settings(request.format or "", output_of(request, output))
        return structs.replace(made, encoding=encoding, versions=made.versions | weighting_versions(request))

    def _config_of_name(self, name: str) -> ModelConfig:
        """Return the settings of the model that a row calls `name`.

        Flags for dtype, device and tuning apply to every model; those that select a model, or trust it, to `--model`
        alone.
        """
        path = real_path(name, self._base)
        title = name if path == name or "://" in name else os.path.normpath(name)
        tuning = structs.replace(self._default.tuning, components={})
        return ModelConfig(
            model=path, name=title, dtype=self._default.dtype, device=self._default.device, tuning=tuning
        )


def _recorded_tuning(tuning: Tuning) -> dict[str, Any]:
    """Return the non-default fields, with absolute paths of component files."""
    components = {name: str(expand_user(file).absolute()) for name, file in tuning.components.items()}
    fields: dict[str, Any] = msgspec.to_builtins(structs.replace(tuning, components=components))
    return fields
