"""LoRA adapters of a request: loaded once, set for each request, taken out when a request has none."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omni_cli.errors import ForwardError
from omni_cli.request import Adapter


class Adapters:
    """The adapters that are loaded into one pipeline, by path."""

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        self._names: dict[str, str] = {}
        self._active: tuple[Adapter, ...] = ()

    def use(self, adapters: Sequence[Adapter]) -> None:
        """Make exactly these adapters count, with their weights; ForwardError names the adapter that cannot be used."""
        wanted = tuple(adapters)
        if wanted == self._active:
            return
        if not hasattr(self._pipeline, "load_lora_weights"):
            raise ForwardError(f"{type(self._pipeline).__name__} takes no LoRA (request field lora)")
        if not wanted:
            self._pipeline.unload_lora_weights()
            self._names.clear()
        else:
            names = [self._load(adapter.path) for adapter in wanted]
            self._pipeline.set_adapters(names, adapter_weights=[adapter.weight for adapter in wanted])
        self._active = wanted

    def _load(self, path: str) -> str:
        """Name of the adapter in `path`, loaded if it is not yet."""
        if path in self._names:
            return self._names[path]
        name = f"lora_{len(self._names)}"
        keywords: dict[str, Any] = {"adapter_name": name, "use_safetensors": True}
        file = Path(path).expanduser()
        if file.is_file():
            if file.suffix != ".safetensors":
                raise ForwardError(
                    f"lora {path!r}: only .safetensors files are loaded; others can run code when they are read"
                )
            keywords["weight_name"] = file.name
            path_or_id = str(file.parent)
        else:
            path_or_id = str(file) if file.is_dir() else path
        try:
            self._pipeline.load_lora_weights(path_or_id, **keywords)
        except Exception as error:  # boundary: a loader of another library may raise anything
            raise ForwardError(f"lora {path!r} cannot be loaded: {type(error).__name__}: {error}") from error
        self._names[path] = name
        return name
