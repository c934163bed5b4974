"""Loading: one function that knows the order of the steps."""

from collections.abc import Callable
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
from omni_cli.request import ModelInfo
from omni_cli.worker.loader.derive import card_of
from omni_cli.worker.loader.fingerprint import revision_of
from omni_cli.worker.loader.hub import download
from omni_cli.worker.loader.place import place
from omni_cli.worker.loader.quiet import quiet
from omni_cli.worker.loader.single_file import load_file, pipeline_named
from omni_cli.worker.loader.source import Form, check_code, check_weights, locate, read_index
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


def load(model: ModelConfig, report: Callable[[str], None]) -> LoadedPipeline:
    """Load `model`; `report` hears each step. Raises ModelLoadError, which says what to do."""
    source = locate(model)
    device, dtype = place(model)
    with quiet():
        if source.form is Form.FILE and source.path is not None:
            path = source.path
            report(path.name)
            pipeline = _explained(model, lambda: load_file(path, model, dtype))
        else:
            path = source.path or download(model, report)
            pipeline = _load_folder(path, model, dtype, report)
        report(f"to {device}")
        pipeline.to(device)
    pipeline.set_progress_bar_config(disable=True)
    report("revision")
    revision = revision_of(path)
    if source.form is Form.FILE and model.config and Path(model.config).is_dir():
        revision = f"{revision}+{revision_of(Path(model.config))}"
    seams = tuple(install(pipeline, VaeImageProcessor))
    info = ModelInfo(
        id=model.model, revision=revision, pipeline=type(pipeline).__name__, dtype=str(dtype).removeprefix("torch.")
    )
    versions = {name: version(name) for name in PACKAGES}
    return LoadedPipeline(pipeline, seams, info, card_of(pipeline, model, bool(seams)), device, versions)


def _load_folder(folder: Path, model: ModelConfig, dtype: torch.dtype, report: Callable[[str], None]) -> Any:
    """The pipeline in a diffusers folder, after the checks."""
    index = read_index(folder, model.model)
    check_code(folder, index, model, lambda library: hasattr(diffusers.pipelines, library))
    check_weights(folder, index, model.model)
    chosen = pipeline_named(model.pipeline) if model.pipeline else diffusers.DiffusionPipeline
    return _explained(
        model,
        lambda: chosen.from_pretrained(
            folder,
            torch_dtype=_ReportingDtypes(dtype, report),
            variant=model.variant,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=model.trust_remote_code,
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
