"""What is known of a model before any process with torch is started."""

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import structs

from omni_cli.config import EngineConfig, ModelConfig, Tuning
from omni_cli.errors import HubUnreachable, ModelLoadError, OmniGenError, UsageError
from omni_cli.log import logger
from omni_cli.models.content_revision import model_revision
from omni_cli.models.foreign_code import foreign_code
from omni_cli.models.hub_commit import ask_commit, check_cached, is_cached, is_commit, is_offline
from omni_cli.models.model_files import (
    ModelFiles,
    ModelForm,
    check_file,
    check_weights,
    locate,
    pipeline_components,
    read_index,
    remote_code_class,
    without_flag,
)
from omni_cli.models.registry import card_from_source, index_folder
from omni_cli.planner.facts.device_facts import device_facts
from omni_cli.planner.facts.facts_key import facts_key, library_versions
from omni_cli.planner.facts.known_revision import NotHashed, known_revision
from omni_cli.request import ModelInfo
from omni_cli.storage.user_cache import read_cached, write_cached
from omni_cli.transport.messages import Loaded

KIND = "facts"
"""The kind of cached values that holds the facts of models."""


class KnownFacts:
    """The facts of models for one run: what loading each would report.

    What a worker reported for the very same files, settings, libraries and devices takes precedence over what is
    derived here. Models of a runner other than ours are never known.
    """

    def __init__(self, engine: EngineConfig, environ: Mapping[str, str] = os.environ, *, network: bool = False) -> None:
        """Look up facts for runs of `engine`; `environ` names the user's cache folder.

        With `network`, the hub is asked whether a branch or tag has moved since its model was downloaded.
        """
        self._has_our_runner = engine.runner == EngineConfig().runner
        self._network = network
        self._environ = environ
        self._facts: dict[ModelConfig, Loaded | None] = {}

    def look_up(self, model: ModelConfig, *, quick: bool = False) -> Loaded | None:
        """Return the facts of `model`; None if only a process with its libraries can tell.

        With `quick`, None as well if many bytes would have to be hashed. Raises ModelLoadError if the model is not
        there or its files are damaged, and UsageError for user cards that cannot be used.
        """
        if not self._has_our_runner:
            return None
        if model not in self._facts:
            try:
                self._facts[model] = self._look_up(model, quick)
            except NotHashed:
                return None
        return self._facts[model]

    def learn(self, model: ModelConfig, loaded: Loaded) -> None:
        """Keep what a worker reported of `model` for this run and, while its files are there, for later ones.

        Thread-safe; reads no weights.
        """
        if not self._has_our_runner or self._facts.get(model) == loaded:
            return
        self._facts[model] = loaded
        with suppress(OSError, OmniGenError):  # files that are gone since
            path = _local_path(model, locate(model))
            if path is not None and loaded.info.revision is not None:
                write_cached(KIND, facts_key(model, loaded.info.revision, path), loaded, self._environ)

    def _look_up(self, model: ModelConfig, quick: bool) -> Loaded | None:
        """Return the facts of `model`, as `look_up` does. Raises NotHashed."""
        files = locate(model)
        path = self._hub_folder(model) if files.form is ModelForm.HUB else files.path
        if path is None:
            return None
        if files.form is ModelForm.FILE:
            check_file(path, model.model)
        revision_of = partial(known_revision, environ=self._environ, quick=quick)
        try:
            revision = model_revision(path, model, model.tuning.components, revision_of)
        except (OSError, UsageError):  # the worker reports it with its reason
            return None
        key = facts_key(model, revision, path)
        cached = read_cached(KIND, key, Loaded, self._environ)
        if cached is not None:
            return structs.replace(cached, info=structs.replace(cached.info, id=model.title))
        derived = _facts_from_files(model, files, path, revision)
        if derived is not None:
            write_cached(KIND, key, derived, self._environ)
        return derived

    def _hub_folder(self, model: ModelConfig) -> Path | None:
        """Return the folder of a hub model in the local cache; None if it has no index, or not that of now.

        Raises ModelLoadError if the model is not in the cache, and the hub does not answer or refuses.
        """
        cached = index_folder(model)
        if not self._network or (cached is not None and is_commit(model.revision)):
            return cached
        if is_offline():
            check_cached(model.model, model.revision)
            return cached
        try:
            commit = ask_commit(model.model, model.revision)
        except ModelLoadError as error:
            if not is_cached(model.model, model.revision):
                raise
            reason = without_flag(error, model.model)
            if isinstance(error, HubUnreachable):
                self._network = False  # of many models, only the first waits
                reason = error.reason
            logger.warning("%s; %s is used as it is in the local cache", reason, model.model)
            return cached
        return cached if cached is not None and cached.name == commit else None


def _local_path(model: ModelConfig, files: ModelFiles) -> Path | None:
    """Return the folder or file of `model`; of a hub model, the folder in the local cache if it has an index."""
    return index_folder(model) if files.form is ModelForm.HUB else files.path


def _facts_from_files(model: ModelConfig, files: ModelFiles, folder: Path, revision: str) -> Loaded | None:
    """Derive the facts of a folder or hub model in diffusers' layout whose class is diffusers' own; None otherwise.

    Settings that need the libraries to be checked, and models with code of their own, are left to the worker.
    """
    where = device_facts(model.device, model.dtype)
    is_tuned = model.tuning != Tuning() or model.custom_pipeline is not None
    if files.form is ModelForm.FILE or where is None or is_tuned or remote_code_class(folder) is not None:
        return None
    index = read_index(folder, model.model)
    if foreign_code(folder, index):
        return None
    if files.form is ModelForm.HUB and not all((folder / name).is_dir() for name, _, _ in pipeline_components(index)):
        return None  # its configuration is not downloaded yet
    if files.form is ModelForm.FOLDER and model.pipeline is None:  # another class may need fewer components
        check_weights(folder, index, model.model, model.variant)
    name = model.pipeline or index["_class_name"]
    card = card_from_source(name, model)
    if card is None:
        return None
    info = ModelInfo(id=model.title, revision=revision, pipeline=name, dtype=where.dtype)
    return Loaded(info=info, card=card, device=where.device, versions=dict(library_versions()), devices=where.devices)
