"""Cards of known pipelines, looked up without torch or diffusers.

    ModelConfig ──peek──> pipeline class name ──card_for──> Card      (None: not known before the model is loaded)

The data is in `pipelines.toml`, and in a file of the user's own.
"""

import json
import tomllib
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Protocol

import msgspec

from omni_cli.models.cards import Card
from omni_cli.models.demo import WEIGHTS
from omni_cli.models.own import layered, own_card

DATA = Path(__file__).with_name("pipelines.toml")
DEMO = "demo"
INDEX = "model_index.json"


class ModelChoice(Protocol):
    """The part of `config.ModelConfig` that says which model is meant."""

    @property
    def model(self) -> str:
        """ "demo", a folder, a hub id, or a `.safetensors` file."""

    @property
    def revision(self) -> str | None:
        """Commit, branch or tag of a hub model."""

    @property
    def pipeline(self) -> str | None:
        """Pipeline class that the user asked for."""

    @property
    def config(self) -> str | None:
        """Folder or hub id with the configuration of a single file."""

    @property
    def custom_pipeline(self) -> str | None:
        """Code of the user's own that has the pipeline class."""

    @property
    def cards(self) -> str | None:
        """File with cards of the user's own."""


class Variant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change to the card of `pipeline` for models whose id matches the glob `id`, or whose index holds the values of `index`."""

    pipeline: str
    id: str | None = None
    index: dict[str, Any] | None = None
    sizes: dict[str, int] = {}
    defaults: dict[str, Any] = {}
    call: dict[str, int | float | str | bool] = {}


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of `pipelines.toml`: raw cards by class name, and variants."""

    variants: tuple[Variant, ...]
    cards: dict[str, dict[str, Any]]


@cache
def data() -> Data:
    """The cards as they are written; read once."""
    return msgspec.convert(tomllib.loads(DATA.read_text(encoding="utf-8")), Data)


def peek(model: ModelChoice) -> str | None:
    """Class name of the pipeline that `model` will be, as far as it is told by files that are here; None if it is not.

    Nothing is downloaded: a hub model is known once its files are in the local cache.
    """
    if model.custom_pipeline is not None:
        return None
    return model.pipeline or _class_name(_index(model))


def card_for(pipeline: str, model: ModelChoice | None = None) -> Card | None:
    """The card of `pipeline`, in the variant that fits `model`, under the user's own; None if the class is not known.

    Raises UsageError for a file of the user's that cannot be used.
    """
    raw = data().cards.get(pipeline)
    if raw is None:
        return None
    merged = {"pipeline": pipeline, **raw}
    variant = _variant(pipeline, model) if model is not None else None
    if variant is not None:
        for field in ("sizes", "defaults", "call"):
            merged[field] = raw.get(field, {}) | getattr(variant, field)
    if model is not None:
        merged = layered(merged, own_card(pipeline, model.cards))
    return msgspec.convert(merged, Card)


def _variant(pipeline: str, model: ModelChoice) -> Variant | None:
    """The first variant that fits."""
    id_, index = _id(model.model), None
    for variant in data().variants:
        if variant.pipeline != pipeline:
            continue
        if variant.id is not None and fnmatch(id_.lower(), variant.id):
            return variant
        if variant.index is not None:
            index = index if index is not None else _index(model)
            if all(index.get(key) == value for key, value in variant.index.items()):
                return variant
    return None


def _id(model: str) -> str:
    """The name that variants are matched by: the last two parts of a path, so that a download keeps its hub id."""
    if model == DEMO or (S_ISDIR(mode_of(Path(model))) and Path(model).resolve() == WEIGHTS.resolve()):
        return DEMO
    return "/".join(Path(model).parts[-2:]).removesuffix(".safetensors")


def _index(model: ModelChoice) -> dict[str, Any]:
    """The model_index.json that `model`, or else its configuration, has here; empty if there is none that can be read."""
    for name in (model.model, model.config):
        path = _index_path(name, model.revision) if name else None
        if path is not None:
            try:
                index = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                return {}  # the loader reports it with its reason
            return index if isinstance(index, dict) else {}
    return {}


def index_folder(model: ModelChoice) -> Path | None:
    """The folder of the model_index.json of `model`, if it is here; for a hub model, its snapshot in the local cache."""
    path = _index_path(model.model, model.revision)
    return None if path is None else path.parent


def expanded(name: str) -> Path:
    """`name` as a path, `~` expanded where there is such a user."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def mode_of(path: Path) -> int:
    """The file mode of what is at `path`; 0 for what is not there, cannot be looked at, or cannot be a path."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0


def _index_path(name: str, revision: str | None) -> Path | None:
    """Where the index of a folder or a cached hub model lies."""
    folder = WEIGHTS if name == DEMO else expanded(name)
    if mode_of(folder) or name.count("/") > 1:
        path = folder / INDEX
        return path if S_ISREG(mode_of(path)) else None
    # Imported here: 0.2 s that only a hub id needs.
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(name, INDEX, revision=revision)
    except HFValidationError:
        return None
    return Path(cached) if isinstance(cached, str) else None


def _class_name(index: dict[str, Any]) -> str | None:
    """The class that an index names; the last part of [module, class] for a pipeline that brings its own code."""
    name = index.get("_class_name")
    if isinstance(name, list) and name:
        name = name[-1]
    return name if isinstance(name, str) else None
