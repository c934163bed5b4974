"""Models that ship their own `generate_image` as transformers remote code, such as HunyuanImage 3.0.

    config.json with auto_map ──> AutoModelForCausalLM, if trusted ──> RemoteCodePipeline: a pipeline for the runner

`generate_image` has its own names for the size, the steps and the guidance. They are read from its signature.
`models/remotes.toml` lists what it accepts through `**kwargs`.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from msgspec.structs import replace
from PIL import Image
from transformers import AutoModelForCausalLM

from omni_cli.config import ModelConfig
from omni_cli.errors import MediaContractError, ModelLoadError
from omni_cli.models.cards import Card
from omni_cli.models.remote_code import RemoteCodeModel, remote_code_model

METHOD = "generate_image"

PARAMETER_NAMES = {
    "negative_prompt": ("negative_prompt",),
    "height": ("height",),
    "width": ("width",),
    "num_inference_steps": ("num_inference_steps", "diff_infer_steps"),
    "guidance_scale": ("guidance_scale", "diff_guidance_scale"),
    "image": ("image",),
}
"""diffusers' parameter name -> the names used by `generate_image` methods, commonest first. All use `prompt`."""

IMAGE_SIZE = "image_size"
"""The parameter of methods without height and width; its value is "HxW"."""


@dataclass(frozen=True, slots=True)
class ImageOutput:
    """The output of a call: float32 [H, W, C] in 0..1, one array per image."""

    images: list[np.ndarray[Any, np.dtype[np.float32]]]


def load_remote_code_pipeline(
    folder: Path, model: ModelConfig, device: torch.device, dtype: torch.dtype, on_progress: Callable[[str], None]
) -> "RemoteCodePipeline":
    """Load the model in `folder` as a pipeline, on an accelerator spread over all devices: such models are large.

    Raises ModelLoadError if the model has no `generate_image`.
    """
    on_progress("model")
    spread = {} if device.type == "cpu" else {"device_map": "auto"}
    loaded = AutoModelForCausalLM.from_pretrained(
        folder, trust_remote_code=True, dtype=dtype, use_safetensors=True, local_files_only=True, **spread
    )
    if not callable(getattr(loaded, METHOD, None)):
        raise ModelLoadError(
            f"--model {model.model!r}: {type(loaded).__name__} has no {METHOD}, so it cannot generate images"
        )
    if hasattr(loaded, "load_tokenizer"):
        on_progress("tokenizer")
        loaded.load_tokenizer(str(folder))
    return RemoteCodePipeline(loaded.eval(), remote_code_model(type(loaded).__name__))


class RemoteCodePipeline:
    """A model's `generate_image` with the interface of a diffusers pipeline."""

    def __init__(self, model: Any, remote: RemoteCodeModel) -> None:
        """Wrap `model`; `remote` describes what its signature does not."""
        self._model = model
        signature = inspect.signature(getattr(model, METHOD)).parameters.values()
        named = [p.name for p in signature if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        self._parameters = (*named, *remote.takes)
        self._renames: dict[str, str] = {}
        for name, candidates in PARAMETER_NAMES.items():
            if accepted := [candidate for candidate in candidates if candidate in self._parameters]:
                self._renames[name] = accepted[0]
        self._has_image_size = IMAGE_SIZE in self._parameters and not {"height", "width"} <= self._renames.keys()
        self._card = remote.card

    @property
    def card(self) -> Card:
        """The card of the model class with the parameters that this pipeline accepts."""
        sides = {"height", "width"} if self._has_image_size else set()
        replaced = {"seed", IMAGE_SIZE} if self._has_image_size else {"seed"}
        accepted = {"prompt", *self._renames, *sides, *self._parameters} - replaced
        return replace(
            self._card, pipeline=type(self._model).__name__, output_type="np", parameters=tuple(sorted(accepted))
        )

    @property
    def model_class(self) -> type:
        """The model class that the repository ships."""
        return type(self._model)

    def __call__(self, *, generator: torch.Generator, output_type: str, **keywords: Any) -> ImageOutput:
        """Generate the images of one prompt.

        All randomness comes from the generator's seed, which is set as torch's global seed and passed as `seed`.
        Raises MediaContractError if the model returns no image.
        """
        seed = generator.initial_seed()
        torch.manual_seed(seed)
        arguments = {self._renames.get(name, name): value for name, value in keywords.items()}
        if self._has_image_size and "height" in keywords and "width" in keywords:
            arguments[IMAGE_SIZE] = f"{arguments.pop('height')}x{arguments.pop('width')}"
        if "seed" in self._parameters:
            arguments["seed"] = seed
        images = list(_images_in(getattr(self._model, METHOD)(**arguments)))
        if not images:
            raise MediaContractError(f"{type(self._model).__name__}.{METHOD} returned no image")
        return ImageOutput([_to_float(image) for image in images])

    def to(self, device: torch.device | str) -> "RemoteCodePipeline":
        """Move the weights, unless they are spread over several devices."""
        if len(getattr(self._model, "hf_device_map", ())) <= 1:
            self._model.to(device)
        return self

    def set_progress_bar_config(self, **settings: Any) -> None:
        """Do nothing: such models have no common setting for progress bars."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set `progress_bar` on the diffusers pipeline inside the model, if there is one, to count its steps."""
        inner = getattr(self._model, "pipeline", None) if name == "progress_bar" else None
        object.__setattr__(self if inner is None else inner, name, value)


def _images_in(value: Any) -> Iterator[Image.Image]:
    """Yield all images in a return value: an image, or nested lists and tuples with images and other values."""
    if isinstance(value, Image.Image):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _images_in(part)


def _to_float(image: Image.Image) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return `image` as float32 [H, W, C] in 0..1, which rounds back to the same 8-bit levels."""
    converted = image if image.mode in ("RGB", "RGBA") else image.convert("RGB")
    return np.asarray(converted, dtype=np.float32) / np.float32(255)
