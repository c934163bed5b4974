"""Look up the cards of known pipelines, without torch or diffusers.

    ModelConfig ── local_pipeline_class ──> class name ── known_card ──> Card      (None: unknown before loading)

Cards are in `pipelines.toml`, in the folders of models and in a user's own file.
"""

import json
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Protocol

import msgspec
from msgspec import structs

from omni_cli.errors import ModelLoadError
from omni_cli.models.cards import Card
from omni_cli.models.class_card import class_card
from omni_cli.models.demo import WEIGHTS
from omni_cli.models.model_defaults import CallValues, call_values, configured_values, pipeline_instance
from omni_cli.models.signature import call_parameters
from omni_cli.models.user_cards import folder_card, merge_cards, user_card
from omni_cli.storage.user_path import expand_user

DEMO = "demo"
INDEX = "model_index.json"
_CARD_FILE = Path(__file__).with_name("pipelines.toml")


class ModelChoice(Protocol):
    """The part of `config.ModelConfig` that selects a model."""

    @property
    def model(self) -> str:
        """ "demo", a folder, a hub id, or a `.safetensors` file."""

    @property
    def revision(self) -> str | None:
        """Commit, branch or tag of a hub model."""

    @property
    def pipeline(self) -> str | None:
        """Pipeline class that the user asks for."""

    @property
    def config(self) -> str | None:
        """Folder or hub id with the configuration of a single file."""

    @property
    def custom_pipeline(self) -> str | None:
        """A user's code that defines the pipeline class."""

    @property
    def cards(self) -> str | None:
        """File of user cards."""


class Variant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change to the card of `pipeline` for some models.

    It applies to models whose id matches the glob `id`, or whose model_index.json has the values of `index`. With
    `corrects_config`, its values count more than the model's configuration.
    """

    pipeline: str
    id: str | None = None
    index: dict[str, Any] | None = None
    sizes: dict[str, int] = {}
    defaults: dict[str, Any] = {}
    call: dict[str, int | float | str | bool] = {}
    corrects_config: bool = False

    @property
    def changes(self) -> dict[str, dict[str, Any]]:
        """What it changes of a raw card."""
        return {"sizes": self.sizes, "defaults": self.defaults, "call": self.call}


class CardTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of `pipelines.toml`: variants, and raw cards by class name."""

    variants: tuple[Variant, ...]
    cards: dict[str, dict[str, Any]]


@cache
def card_table() -> CardTable:
    """Return the built-in cards as they are written."""
    return msgspec.convert(tomllib.loads(_CARD_FILE.read_text(encoding="utf-8")), CardTable)


def local_pipeline_class(model: ModelChoice) -> str | None:
    """Return the name of the pipeline class of `model` as far as local files tell; None if they do not.

    Downloads nothing: a hub model is known once its files are in the local cache.
    """
    if model.custom_pipeline is not None:
        return None
    return model.pipeline or _class_name(_read_index(model))


def known_card(pipeline: str, model: ModelChoice | None = None) -> Card | None:
    """Return the card of `pipeline` in the form that fits `model`; None for a class that diffusers does not define.

    Of several values the last one counts: the class's signature, its built-in card, a variant of that, the model's
    configuration, a variant that corrects it, the card in the model's folder, the user's file.

    Raises UsageError for a user's file that cannot be used, and ModelLoadError for such a card in the model's folder
    and for a class that makes no media.
    """
    builtin = card_table().cards.get(pipeline)
    folder = None if model is None else configured_folder(model)
    instance = pipeline_instance(pipeline, folder)
    if builtin is None and (instance.source is None or not call_parameters(pipeline)):
        return None
    values = call_values(instance) if builtin is None or folder is not None else CallValues()
    with _naming(model):
        raw = {"pipeline": pipeline, **(class_card(instance, values) if builtin is None else builtin)}
        variant = None if model is None else _variant(pipeline, model)
        if variant is not None:
            raw = merge_cards(raw, variant.changes)
        if folder is not None and builtin is not None:
            raw = merge_cards(raw, configured_values(raw, instance, values))
            if variant is not None and variant.corrects_config:
                raw = merge_cards(raw, variant.changes)
        return override_card(msgspec.convert(raw, Card), model)


def override_card(card: Card, model: ModelChoice | None) -> Card:
    """Return `card` with the fields that the cards in the model's folder and in the user's file set.

    Raises UsageError for a user's file that cannot be used, and ModelLoadError for such a card in the model's folder.
    """
    if model is None:
        return card
    raw = merge_cards(msgspec.to_builtins(card), folder_card(card.pipeline, configured_folder(model)))
    return msgspec.convert(merge_cards(raw, user_card(card.pipeline, model.cards)), Card)


def configured_folder(model: ModelChoice) -> Path | None:
    """Return the local folder with the configuration of `model`: its own, or that of a single file; None if unknown."""
    for name in (model.model, model.config):
        path = _index_path(name, model.revision) if name else None
        if path is not None:
            return path.parent
    return None


def card_from_source(pipeline: str, model: ModelChoice) -> Card | None:
    """Return `known_card` with the parameters of the class's `__call__`, read from the source of diffusers.

    None for a class that diffusers does not define. Raises UsageError and ModelLoadError as `known_card` does.
    """
    card = known_card(pipeline, model)
    parameters = None if card is None else call_parameters(pipeline)
    return None if card is None or parameters is None else structs.replace(card, parameters=tuple(parameters))


def index_folder(model: ModelChoice) -> Path | None:
    """Return the local folder with the model_index.json of `model` (of a hub model the cached snapshot), or None."""
    path = _index_path(model.model, model.revision)
    return None if path is None else path.parent


def file_mode(path: Path) -> int:
    """Return the mode of the file at `path`; 0 if it does not exist, cannot be read or is no valid path."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0


def real_path(name: str, base: Path) -> str:
    """Return the real path of the model `name` if it exists from `base`; else `name`: the demo, or a model on a hub.

    A file that is a link keeps its name: in the hub's cache, only the name of the link has the suffix.
    """
    if name == DEMO:
        return name
    path = base / expand_user(name)
    mode = file_mode(path)
    if S_ISDIR(mode):
        return os.path.realpath(path)
    return str(Path(os.path.realpath(path.parent), path.name)) if mode else name


def _variant(pipeline: str, model: ModelChoice) -> Variant | None:
    """Return the first variant that fits."""
    model_id, index = _variant_id(model.model), None
    for variant in card_table().variants:
        if variant.pipeline != pipeline:
            continue
        if variant.id is not None and fnmatch(model_id.lower(), variant.id):
            return variant
        if variant.index is not None:
            index = index if index is not None else _read_index(model)
            if all(index.get(key) == value for key, value in variant.index.items()):
                return variant
    return None


def _variant_id(model: str) -> str:
    """Return the name that variants match: the last two parts of a path, so that a download keeps its hub id."""
    return "/".join(Path(real_path(model, Path())).parts[-2:]).removesuffix(".safetensors")


@contextmanager
def _naming(model: ModelChoice | None) -> Iterator[None]:
    """Name `model` in a ModelLoadError, as every other one does."""
    try:
        yield
    except ModelLoadError as error:
        raise ModelLoadError(f"--model {model.model!r}: {error}" if model is not None else str(error)) from None


def _read_index(model: ModelChoice) -> dict[str, Any]:
    """Return the local model_index.json of `model`, or else of its configuration; empty if there is none to read."""
    folder = configured_folder(model)
    if folder is None:
        return {}
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # the loader reports it with its reason
    return index if isinstance(index, dict) else {}


def _index_path(name: str, revision: str | None) -> Path | None:
    """Return the path of the index of a folder or a cached hub model, None if there is none."""
    folder = WEIGHTS if name == DEMO else expand_user(name)
    if file_mode(folder) or name.count("/") > 1:
        path = folder / INDEX
        return path if S_ISREG(file_mode(path)) else None
    # Imported here: 0.2 s that only a hub id needs.
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(name, INDEX, revision=revision)
    except HFValidationError:
        return None
    return Path(cached) if isinstance(cached, str) else None


def _class_name(index: dict[str, Any]) -> str | None:
    """Return the class that an index names; the last part of [module, class] for a pipeline with custom code."""
    name = index.get("_class_name")
    if isinstance(name, list) and name:
        name = name[-1]
    return name if isinstance(name, str) else None
