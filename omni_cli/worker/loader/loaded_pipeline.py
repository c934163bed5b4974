"""Load a model, or identify it without reading its weights."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers.image_processor import VaeImageProcessor

from omni_cli.config import ModelConfig
from omni_cli.errors import ModelLoadError, OmniGenError
from omni_cli.models.cards import Card
from omni_cli.models.content_revision import model_revision
from omni_cli.models.foreign_code import check_foreign_code
from omni_cli.models.hub_errors import translate_hub_errors
from omni_cli.models.model_files import (
    ModelFiles,
    ModelForm,
    check_file,
    check_weights,
    custom_pipeline_file,
    locate,
    read_index,
    remote_code_class,
)
from omni_cli.models.registry import override_card
from omni_cli.models.weights import weight_bytes
from omni_cli.request import ModelInfo
from omni_cli.transport.messages import Loaded
from omni_cli.worker.loader.hub import (
    download,
    download_index,
    hub_or_cache,
    quiet_libraries,
    remote_code_folder,
)
from omni_cli.worker.loader.infer_card import card_processors, infer_card, registered_card
from omni_cli.worker.loader.quantize import load_components, quantization_arguments
from omni_cli.worker.loader.remote_code_pipeline import load_remote_code_pipeline
from omni_cli.worker.loader.single_file import load_single_file, pipeline_class, single_file_class
from omni_cli.worker.loader.trust import (
    check_custom_pipeline,
    check_remote_code,
)
from omni_cli.worker.loader.tune import apply_tuning, check_tuning, resolve_device_and_dtype
from omni_cli.worker.pipeline.device_output_processor import DeviceOutputProcessor, wrap_processors

PACKAGES = ("torch", "diffusers", "transformers")
"""Packages whose versions can change pixels."""


@dataclass(frozen=True, slots=True)
class LoadedPipeline:
    """A pipeline on its device.

    `processors` are its wrapped output processors, empty for a pipeline that has none.
    """

    pipeline: Any
    processors: tuple[DeviceOutputProcessor, ...]
    info: ModelInfo
    card: Card
    device: torch.device

    @property
    def nbytes(self) -> int:
        """The bytes of the weights of its components."""
        parts = getattr(self.pipeline, "components", {}).values()
        modules = [part for part in parts if isinstance(part, torch.nn.Module)]
        return sum(tensor.nbytes for module in modules for tensor in (*module.parameters(), *module.buffers()))

    @property
    def loaded_message(self) -> Loaded:
        """The facts about the model that are sent to the parent process."""
        return _loaded(self.info, self.card, self.device)


def load(
    model: ModelConfig,
    on_progress: Callable[[str], None],
    on_identified: Callable[[Loaded], None] | None = None,
    reuse: Callable[[str], LoadedPipeline | None] = lambda revision: None,
) -> LoadedPipeline:
    """Load `model`, calling `on_progress` with the name of each step.

    Calls `on_identified` before the weights are read, if the model is a folder or hub model whose class has a card.
    `reuse` is called with the model's revision and may return the pipeline, which was loaded before.
    Raises ModelLoadError or UsageError with what to do about it.
    """
    source, device, dtype = _resolve(model)
    with quiet_libraries():
        path = source.path or download(model, on_progress)
        has_remote_code = source.form is not ModelForm.FILE and remote_code_class(path) is not None
        if has_remote_code:
            check_remote_code(path, model)
        on_progress("revision")
        revision = model_revision(path, model, model.tuning.components)
        if (loaded := reuse(revision)) is not None:
            return loaded
        if has_remote_code:
            return _load_remote_code(path, revision, model, device, dtype, on_progress)
        if source.form is ModelForm.FILE:
            on_progress(path.name)
            with _translate_load_errors(model):
                pipeline = load_single_file(path, model, dtype)
        else:
            index = read_index(path, model.model)
            chosen = _folder_class(index, model)
            card = None if chosen is None else registered_card(chosen, model)
            if on_identified is not None and chosen is not None and card is not None:
                on_identified(_loaded(_info(model, revision, chosen, dtype), card, device))
            pipeline = _load_folder(path, index, model, dtype, on_progress)
        on_progress(f"onto {device}")
        apply_tuning(pipeline, model.tuning, device, dtype)
    pipeline.set_progress_bar_config(disable=True)
    processors = tuple(wrap_processors(pipeline, VaeImageProcessor, *card_processors(type(pipeline), model)))
    card = infer_card(pipeline, model, bool(processors))
    return LoadedPipeline(pipeline, processors, _info(model, revision, type(pipeline), dtype), card, device)


def weights_of(model: ModelConfig) -> int | None:
    """Return the bytes of the weights of `model` once it is loaded; None if unknown. Raises UsageError like `load`."""
    _, dtype = resolve_device_and_dtype(model)
    return weight_bytes(model, model.variant, str(dtype).removeprefix("torch."))


def identify(model: ModelConfig, on_progress: Callable[[str], None]) -> Loaded | None:
    """Return what `load(model).loaded_message` would be, without reading weights.

    Downloads only the index of a hub model. Returns None for a class without a card, because inferring one needs the
    loaded pipeline.
    Raises ModelLoadError or UsageError with what to do about it.
    """
    source, device, dtype = _resolve(model)
    hub = hub_or_cache(model.model, model.revision, on_progress) if source.form is ModelForm.HUB else nullcontext()
    with quiet_libraries(), hub:
        remote = _remote_code_folder(source, model)
        if remote is not None:
            check_remote_code(remote, model)
            return None
        path = source.path or download_index(model.model, model.revision).parent
        chosen: type | None
        if source.form is ModelForm.FILE:
            chosen = single_file_class(path, model)
        else:
            index = read_index(path, model.model)
            if source.form is ModelForm.FOLDER:
                _check_folder(path, index, model)
            chosen = _folder_class(index, model)
        card = None if chosen is None else registered_card(chosen, model)
        if chosen is None or card is None:
            return None
        on_progress("revision")
        return _loaded(_info(model, model_revision(path, model, model.tuning.components), chosen, dtype), card, device)


def _resolve(model: ModelConfig) -> tuple[ModelFiles, torch.device, torch.dtype]:
    """Return where the model is, its device and its dtype, after checking everything that needs none of its files."""
    source = locate(model)
    if source.form is ModelForm.FILE and source.path is not None:
        check_file(source.path, model.model)
    device, dtype = resolve_device_and_dtype(model)
    check_tuning(model.tuning)
    check_custom_pipeline(model)
    return source, device, dtype


def _loaded(info: ModelInfo, card: Card, device: torch.device) -> Loaded:
    return Loaded(info=info, card=card, device=str(device), versions={name: version(name) for name in PACKAGES})


def _info(model: ModelConfig, revision: str, pipeline: type, dtype: torch.dtype) -> ModelInfo:
    name = str(dtype).removeprefix("torch.")
    return ModelInfo(id=model.title, revision=revision, pipeline=pipeline.__name__, dtype=name)


def _remote_code_folder(source: ModelFiles, model: ModelConfig) -> Path | None:
    """Return the folder with the code of a model that ships its own `generate_image`; None for any other model."""
    if source.form is ModelForm.HUB:
        with translate_hub_errors(model.model):
            return remote_code_folder(model)
    return source.path if source.path is not None and remote_code_class(source.path) is not None else None


def _load_remote_code(
    folder: Path,
    revision: str,
    model: ModelConfig,
    device: torch.device,
    dtype: torch.dtype,
    on_progress: Callable[[str], None],
) -> LoadedPipeline:
    """Load a model that ships its own `generate_image`."""
    with _translate_load_errors(model):
        pipeline = load_remote_code_pipeline(folder, model, device, dtype, on_progress)
    info = _info(model, revision, pipeline.model_class, dtype)
    return LoadedPipeline(pipeline, (), info, override_card(pipeline.card, model), device)


def _folder_class(index: dict[str, Any], model: ModelConfig) -> type | None:
    """Return the diffusers class that a folder is loaded as; None if only code from outside of diffusers can tell."""
    name = index["_class_name"]
    if model.custom_pipeline is not None:
        return None
    if model.pipeline:
        chosen = pipeline_class(model.pipeline)
    else:
        chosen = getattr(diffusers, name, None) if isinstance(name, str) else None
    return chosen if isinstance(chosen, type) else None


def _check_folder(folder: Path, index: dict[str, Any], model: ModelConfig) -> None:
    check_foreign_code(folder, index, model.model, trusted=model.trust_remote_code)
    if model.pipeline is not None or model.custom_pipeline is not None:  # another class may need fewer components
        index = {key: value for key, value in index.items() if not isinstance(value, list) or (folder / key).is_dir()}
    check_weights(folder, index, model.model, model.variant, frozenset(model.tuning.components))


def _load_folder(
    folder: Path, index: dict[str, Any], model: ModelConfig, dtype: torch.dtype, on_progress: Callable[[str], None]
) -> Any:
    """Check a diffusers folder and load its pipeline."""
    _check_folder(folder, index, model)
    chosen = pipeline_class(model.pipeline) if model.pipeline else diffusers.DiffusionPipeline
    arguments = quantization_arguments(model.tuning, index) | load_components(model.tuning, folder, index, dtype)
    if model.custom_pipeline is not None:
        arguments["custom_pipeline"] = str(custom_pipeline_file(model.custom_pipeline))
    with _translate_load_errors(model):
        return chosen.from_pretrained(
            folder,
            torch_dtype=_ReportingDtypes(dtype, on_progress),
            variant=model.variant,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=model.trust_remote_code,
            **arguments,
        )


class _ReportingDtypes(dict[str, torch.dtype]):
    """A mapping with the same dtype for every component that reports each component.

    diffusers looks up the dtype of a component just before it loads that component.
    """

    def __init__(self, dtype: torch.dtype, on_progress: Callable[[str], None]) -> None:
        super().__init__(default=dtype)
        self._dtype = dtype
        self._on_progress = on_progress

    def get(self, key: str, default: Any = None) -> Any:
        """Return the dtype, after reporting component `key`."""
        if key != "default":
            self._on_progress(key)
        return self._dtype


@contextmanager
def _translate_load_errors(model: ModelConfig) -> Iterator[None]:
    """Turn whatever a library raises into ModelLoadError."""
    try:
        yield
    except OmniGenError:
        raise
    except torch.OutOfMemoryError as error:
        raise ModelLoadError(
            f"--model {model.model!r} does not fit into memory: {error}; try --dtype bfloat16"
        ) from error
    except Exception as error:  # boundary: a library's loader may raise anything
        raise ModelLoadError(f"--model {model.model!r} cannot be loaded: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Return the message of `error`, and that of its innermost cause unless it says the same."""
    inner, seen = error, {id(error)}
    while (cause := inner.__cause__ or inner.__context__) is not None and id(cause) not in seen:
        if isinstance(cause, StopIteration):  # ends an iteration; what was raised because of it says more
            break
        inner = cause
        seen.add(id(cause))
    text = f"{type(error).__name__}: {str(error).strip()}"
    if inner is error or not str(inner) or str(inner) in str(error):
        return text
    return f"{text} ({type(inner).__name__}: {str(inner).strip()})"
