"""The LoRA adapters of a pipeline: loaded once, activated per request, disabled for a request without adapters.

Switching between adapters moves no weights: up to `MAX_LOADED` adapters stay loaded, and the least recently used one is
deleted first.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from omni_cli.errors import ForwardError
from omni_cli.request import Adapter
from omni_cli.storage.user_path import expand_user

MAX_LOADED = 16
"""Adapters that stay in device memory. One of rank 32 for a 12 B transformer takes about 350 MB in bfloat16."""


class LoraAdapters:
    """The adapters loaded into one pipeline, by path, least recently used first."""

    def __init__(self, pipeline: Any, on_change: Callable[[], None]) -> None:
        """Start with no adapters; `on_change` is called before the effective weights change."""
        self._pipeline = pipeline
        self._on_change = on_change
        self._names: dict[str, str] = {}
        self._numbers = count()
        # None after a change that failed half-way, when the state of the pipeline is unknown.
        self._active: tuple[Adapter, ...] | None = ()

    def activate(self, adapters: Sequence[Adapter]) -> None:
        """Make exactly `adapters` effective, with their weights. Raises ForwardError if one of them cannot be used."""
        wanted = tuple(adapters)
        if wanted == self._active:
            return
        if wanted and not hasattr(self._pipeline, "load_lora_weights"):
            raise ForwardError(f"{type(self._pipeline).__name__} takes no LoRA (request field lora)")
        if len({adapter.path for adapter in wanted}) < len(wanted):
            raise ForwardError("lora: the same adapter is given twice; give it once, with the sum of the weights")
        sources = {adapter.path: _source(adapter.path) for adapter in wanted}
        self._active = None
        self._on_change()
        if wanted:
            names = [self._load(path, *source) for path, source in sources.items()]
            while len(self._names) > max(MAX_LOADED, len(names)):
                self._pipeline.delete_adapters(self._names.pop(next(iter(self._names))))
            self._pipeline.enable_lora()
            self._pipeline.set_adapters(names, adapter_weights=[adapter.weight for adapter in wanted])
        else:
            self._pipeline.disable_lora()
        self._active = wanted

    def _load(self, path: str, source: str, keywords: dict[str, str]) -> str:
        """Return the name of the adapter at `path`, loaded if necessary, and make it the most recently used."""
        if path in self._names:
            self._names[path] = self._names.pop(path)
            return self._names[path]
        name = f"lora_{next(self._numbers)}"
        try:
            self._pipeline.load_lora_weights(source, adapter_name=name, use_safetensors=True, **keywords)
        except Exception as error:  # boundary: a library's loader may raise anything
            raise ForwardError(f"lora {path!r} cannot be loaded: {type(error).__name__}: {error}") from error
        self._names[path] = name
        return name


def _source(path: str) -> tuple[str, dict[str, str]]:
    """Return the folder or hub id of an adapter, and the keywords that name its file."""
    location = expand_user(path)
    if location.is_file():
        if location.suffix != ".safetensors":
            raise ForwardError(
                f"lora {path!r}: only .safetensors files are loaded; others can run code when they are read"
            )
        return str(location.parent), {"weight_name": location.name}
    if not location.is_dir() and (location.is_absolute() or path.startswith(".") or path.count("/") != 1):
        raise ForwardError(f'lora {path!r}: no such file or folder, and not a hub id like "owner/name"')
    return str(location) if location.is_dir() else path, {}
