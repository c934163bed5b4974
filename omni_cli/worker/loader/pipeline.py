"""Loading: one function that knows the order of the steps."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import diffusers
import msgspec
import torch
from diffusers.image_processor import VaeImageProcessor

from omni_cli.config import ModelConfig
from omni_cli.errors import ModelLoadError, OmniGenError
from omni_cli.models.cards import Card
from omni_cli.models.own import layered, own_card
from omni_cli.models.source import Form, Source, check_weights, locate, read_index, remote_class
from omni_cli.request import ModelInfo
from omni_cli.transport.messages import Loaded
from omni_cli.worker.loader.code import check_code, check_custom, check_remote, custom_code
from omni_cli.worker.loader.derive import card_of, known_card, processors_of
from omni_cli.worker.loader.fingerprint import revision_of
from omni_cli.worker.loader.hub import download, explained, index_file, remote_folder
from omni_cli.worker.loader.place import place
from omni_cli.worker.loader.quantize import components, quantization
from omni_cli.worker.loader.quiet import quiet
from omni_cli.worker.loader.remote import load_remote
from omni_cli.worker.loader.single_file import class_of_file, load_file, pipeline_named
from omni_cli.worker.loader.tune import DENOISERS, apply, check
from omni_cli.worker.seam import Seam, install

PACKAGES = ("torch", "diffusers", "transformers")
"""Packages whose versions can change pixels."""


@dataclass(frozen=True, slots=True)
class LoadedPipeline:
    """A pipeline on its device, with the seams in place."""

    pipeline: Any
    seams: tuple[Seam, ...]
    info: ModelInfo
    card: Card
    device: torch.device
    versions: dict[str, str]

    @property
    def facts(self) -> Loaded:
        """What the parent is told."""
        return Loaded(info=self.info, card=self.card, device=str(self.device), versions=self.versions)


def load(
    model: ModelConfig, report: Callable[[str], None], identified: Callable[[Loaded], None] | None = None
) -> LoadedPipeline:
    """Load `model`; `report` hears each step. Raises ModelLoadError, which says what to do.

    `identified` hears the facts of a model in a folder whose class has a card, before its weights are read: enough to plan
    with, and to find that nothing is left to do.
    """
    source = locate(model)
    device, dtype = place(model)
    versions = {name: version(name) for name in PACKAGES}
    check(model.tuning)
    check_custom(model)
    with quiet():
        path = source.path or download(model, report)
        remote = source.form is not Form.FILE and remote_class(path) is not None
        if remote:
            check_remote(path, model)
        report("revision")
        revision = _revision(path, source.form, model)
        if remote:
            return _load_remote(path, revision, model, report)
        if source.form is Form.FILE:
            report(path.name)
            pipeline = _explained(model, lambda: load_file(path, model, dtype))
        else:
            index = read_index(path, model.model)
            chosen = _class_of(index, model)
            if identified is not None and chosen is not None and (card := known_card(chosen, model)) is not None:
                info = _info(model, revision, chosen, dtype)
                identified(Loaded(info=info, card=card, device=str(device), versions=versions))
            pipeline = _load_folder(path, index, model, dtype, report)
        report(f"onto {device}")
        apply(pipeline, model.tuning, device, dtype)
    pipeline.set_progress_bar_config(disable=True)
    seams = tuple(install(pipeline, VaeImageProcessor, *processors_of(type(pipeline), model)))
    card = card_of(pipeline, model, bool(seams))
    return LoadedPipeline(pipeline, seams, _info(model, revision, type(pipeline), dtype), card, device, versions)


def identify(model: ModelConfig, report: Callable[[str], None]) -> Loaded | None:
    """What `load` would say of `model`, without its weights: of a hub model, only the index is fetched.

    None for a class without a card, which only the loaded pipeline can give. Raises ModelLoadError.
    """
    source = locate(model)
    device, dtype = place(model)
    check(model.tuning)
    check_custom(model)
    with quiet():
        remote = _remote_folder(source, model)
        if remote is not None:
            check_remote(remote, model)
            return None
        path = source.path or index_file(model.model, model.revision).parent
        chosen: type | None
        if source.form is Form.FILE:
            chosen = class_of_file(path, model)
        else:
            index = read_index(path, model.model)
            if source.form is Form.FOLDER:
                _check_folder(path, index, model)
            chosen = _class_of(index, model)
        card = None if chosen is None else known_card(chosen, model)
        if chosen is None or card is None:
            return None
        report("revision")
        info = _info(model, _revision(path, source.form, model), chosen, dtype)
    return Loaded(info=info, card=card, device=str(device), versions={name: version(name) for name in PACKAGES})


def _check_folder(folder: Path, index: dict[str, Any], model: ModelConfig) -> None:
    check_code(folder, index, model, lambda library: hasattr(diffusers.pipelines, library))
    check_weights(folder, index, model.model)


def _revision(path: Path, form: Form, model: ModelConfig) -> str:
    """Of the folder or file; of a single file and the configuration it is read with; of what else has files of its own."""
    parts = [path]
    if form is Form.FILE and model.config and Path(model.config).is_dir():
        parts.append(Path(model.config))
    if model.custom_pipeline is not None:
        parts.append(custom_code(model.custom_pipeline))
    parts += [Path(file).expanduser() for _, file in sorted(model.tuning.components.items())]
    return "+".join(revision_of(part) for part in parts)


def _info(model: ModelConfig, revision: str, pipeline: type, dtype: torch.dtype) -> ModelInfo:
    name = str(dtype).removeprefix("torch.")
    return ModelInfo(id=model.title, revision=revision, pipeline=pipeline.__name__, dtype=name)


def _remote_folder(source: Source, model: ModelConfig) -> Path | None:
    """The folder, as far as it is here, of a model that brings its own `generate_image`; None for any other."""
    if source.form is Form.HUB:
        with explained(model.model):
            return remote_folder(model)
    return source.path if source.path is not None and remote_class(source.path) is not None else None


def _load_remote(folder: Path, revision: str, model: ModelConfig, report: Callable[[str], None]) -> LoadedPipeline:
    """The model in a folder that brings its own `generate_image`."""
    device, dtype = place(model)
    pipeline = _explained(model, lambda: load_remote(folder, model, device, dtype, report))
    info = _info(model, revision, pipeline.model_class, dtype)
    own = own_card(info.pipeline, model.cards)
    card = msgspec.convert(layered(msgspec.to_builtins(pipeline.card), own), Card)
    return LoadedPipeline(pipeline, (), info, card, device, {name: version(name) for name in PACKAGES})


def _class_of(index: dict[str, Any], model: ModelConfig) -> type | None:
    """The diffusers class that a folder will be loaded as; None if that takes code from elsewhere to tell."""
    name = index["_class_name"]
    if model.custom_pipeline is not None:
        return None
    if model.pipeline:
        found = pipeline_named(model.pipeline)
    else:
        found = getattr(diffusers, name, None) if isinstance(name, str) else None
    return found if isinstance(found, type) else None


def _load_folder(
    folder: Path, index: dict[str, Any], model: ModelConfig, dtype: torch.dtype, report: Callable[[str], None]
) -> Any:
    """The pipeline in a diffusers folder, after the checks."""
    _check_folder(folder, index, model)
    chosen = pipeline_named(model.pipeline) if model.pipeline else diffusers.DiffusionPipeline
    custom = {} if model.custom_pipeline is None else {"custom_pipeline": str(custom_code(model.custom_pipeline))}
    more = custom | quantization(model.tuning, index, DENOISERS) | components(model.tuning, folder, index, dtype)
    return _explained(
        model,
        lambda: chosen.from_pretrained(
            folder,
            torch_dtype=_ReportingDtypes(dtype, report),
            variant=model.variant,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=model.trust_remote_code,
            **more,
        ),
    )


class _ReportingDtypes(dict[str, torch.dtype]):
    """The same dtype for every component. diffusers asks for it just before it loads one, which is when people want to know."""

    def __init__(self, dtype: torch.dtype, report: Callable[[str], None]) -> None:
        super().__init__(default=dtype)
        self._dtype = dtype
        self._report = report

    def get(self, key: str, default: Any = None) -> Any:
        """The dtype of component `key`."""
        if key != "default":
            self._report(key)
        return self._dtype


def _explained(model: ModelConfig, load_pipeline: Callable[[], Any]) -> Any:
    """Run `load_pipeline`; whatever a library raises becomes ModelLoadError."""
    try:
        return load_pipeline()
    except OmniGenError:
        raise
    except torch.OutOfMemoryError as error:
        raise ModelLoadError(
            f"--model {model.model!r} does not fit into memory: {error}; try --dtype bfloat16"
        ) from error
    except Exception as error:  # boundary: a loader of another library may raise anything
        raise ModelLoadError(f"--model {model.model!r} cannot be loaded: {type(error).__name__}: {error}") from error
