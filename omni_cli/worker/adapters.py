"""LoRA adapters of a request: read once, set for each request, switched off when a request has none.

Changing from one adapter to another, or to none, moves no weights: what was loaded stays, up to `MAX_LOADED`, and the one that was
used longest ago makes room.
"""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from omni_cli.errors import ForwardError
from omni_cli.request import Adapter

MAX_LOADED = 16
"""Adapters that stay in device memory; one of rank 32 for a 12 B transformer takes about 350 MB in bfloat16."""


class Adapters:
    """The adapters that are loaded into one pipeline, by path, least recently used first."""

    def __init__(self, pipeline: Any, changed: Callable[[], None]) -> None:
        """`changed` is called before the weights that count change: what was computed with the ones before is void."""
        self._pipeline = pipeline
        self._changed = changed
        self._names: dict[str, str] = {}
        self._numbers = count()
        # What counts now; None after a change that failed half-way, when the pipeline's state is not known.
        self._active: tuple[Adapter, ...] | None = ()

    def use(self, adapters: Sequence[Adapter]) -> None:
        """Make exactly these adapters count, with their weights; ForwardError names the adapter that cannot be used."""
        wanted = tuple(adapters)
        if wanted == self._active:
            return
        if wanted:
            self._check(wanted)
            sources = {adapter.path: _source(adapter.path) for adapter in wanted}
        self._active = None
        self._changed()
        if wanted:
            names = [self._load(path, source) for path, source in sources.items()]
            self._make_room(len(names))
            self._pipeline.enable_lora()
            self._pipeline.set_adapters(names, adapter_weights=[adapter.weight for adapter in wanted])
        else:
            self._pipeline.disable_lora()
        self._active = wanted

    def _make_room(self, used: int) -> None:
        """Delete the adapters that were used longest ago; the last `used` ones are wanted now, however many they are."""
        while len(self._names) > max(MAX_LOADED, used):
            path = next(iter(self._names))
            self._pipeline.delete_adapters(self._names.pop(path))

    def _check(self, wanted: tuple[Adapter, ...]) -> None:
        """Refuse what can never work, before anything is changed."""
        if not hasattr(self._pipeline, "load_lora_weights"):
            raise ForwardError(f"{type(self._pipeline).__name__} takes no LoRA (request field lora)")
        if len({adapter.path for adapter in wanted}) < len(wanted):
            raise ForwardError("lora: the same adapter is given twice; give it once, with the sum of the weights")

    def _load(self, path: str, source: tuple[str, dict[str, str]]) -> str:
        """Name of the adapter from `path`, loaded if it is not yet."""
        if path in self._names:
            self._names[path] = self._names.pop(path)  # used last now
            return self._names[path]
        name = f"lora_{next(self._numbers)}"
        place, keywords = source
        try:
            self._pipeline.load_lora_weights(place, adapter_name=name, use_safetensors=True, **keywords)
        except Exception as error:  # boundary: a loader of another library may raise anything
            raise ForwardError(f"lora {path!r} cannot be loaded: {type(error).__name__}: {error}") from error
        self._names[path] = name
        return name


def _source(path: str) -> tuple[str, dict[str, str]]:
    """Folder or hub id of an adapter, and the keywords that name its file."""
    place = Path(path).expanduser()
    if place.is_file():
        if place.suffix != ".safetensors":
            raise ForwardError(
                f"lora {path!r}: only .safetensors files are loaded; others can run code when they are read"
            )
        return str(place.parent), {"weight_name": place.name}
    if not place.is_dir() and (place.is_absolute() or path.startswith(".") or path.count("/") != 1):
        raise ForwardError(f'lora {path!r}: no such file or folder, and not a hub id like "owner/name"')
    return str(place) if place.is_dir() else path, {}
