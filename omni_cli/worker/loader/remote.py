"""Repositories that bring their own `generate_image` through transformers' remote code, such as HunyuanImage 3.0.

    config.json with auto_map ──> AutoModelForCausalLM, only if trusted ──> GenerateImage: a pipeline to the runner

Such a call takes text, a seed, a size and steps under names of its own. Which they are is read from its signature; what hides
behind its `**kwargs` is data in `models/remotes.toml`.
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
from omni_cli.models.remotes import Remote, remote_of

METHOD = "generate_image"

NAMES = {
    "negative_prompt": ("negative_prompt",),
    "height": ("height",),
    "width": ("width",),
    "num_inference_steps": ("num_inference_steps", "diff_infer_steps"),
    "guidance_scale": ("guidance_scale", "diff_guidance_scale"),
    "image": ("image",),
}
"""diffusers' word -> the words of such calls, the commonest first. `prompt` is `prompt` everywhere."""

SIZE = "image_size"
"""A size in one word, for calls that take no height and width: "HxW"."""


@dataclass(frozen=True, slots=True)
class Images:
    """What the runner takes: float32 [H, W, C] in 0..1, one array per image."""

    images: list[np.ndarray[Any, np.dtype[np.float32]]]


def load_remote(
    folder: Path, model: ModelConfig, device: torch.device, dtype: torch.dtype, report: Callable[[str], None]
) -> "GenerateImage":
    """The model in `folder`, as a pipeline. On an accelerator its layers are spread over all of them: such models are large."""
    report("model")
    spread = {} if device.type == "cpu" else {"device_map": "auto"}
    loaded = AutoModelForCausalLM.from_pretrained(
        folder, trust_remote_code=True, dtype=dtype, use_safetensors=True, local_files_only=True, **spread
    )
    if not callable(getattr(loaded, METHOD, None)):
        raise ModelLoadError(
            f"--model {model.model!r}: {type(loaded).__name__} has no {METHOD}, so it makes no images that can be asked for"
        )
    if hasattr(loaded, "load_tokenizer"):
        report("tokenizer")
        loaded.load_tokenizer(str(folder))
    return GenerateImage(loaded.eval(), remote_of(type(loaded).__name__))


class GenerateImage:
    """A model's `generate_image` under the words of diffusers."""

    def __init__(self, model: Any, remote: Remote) -> None:
        """`remote`: what is known of its class."""
        self._model = model
        found = inspect.signature(getattr(model, METHOD)).parameters.values()
        named = [p.name for p in found if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        self._own = (*named, *remote.takes)
        self._words = {word: own for word, names in NAMES.items() if (own := self._first(names)) is not None}
        self._whole_size = SIZE in self._own and not {"height", "width"} <= self._words.keys()
        self._card = remote.card

    @property
    def card(self) -> Card:
        """Its card: what is known of the class, with the keywords that are understood."""
        sides = {"height", "width"} if self._whole_size else set()
        taken = {"prompt", *self._words, *sides, *self._own} - {"seed", SIZE if self._whole_size else "seed"}
        return replace(
            self._card, pipeline=type(self._model).__name__, output_type="np", parameters=tuple(sorted(taken))
        )

    @property
    def model_class(self) -> type:
        """The class that came with the repository."""
        return type(self._model)

    def __call__(self, *, generator: torch.Generator, output_type: str, **keywords: Any) -> Images:
        """Images for one prompt. All randomness comes from the generator's seed: the model's own argument, and torch's state."""
        seed = generator.initial_seed()
        torch.manual_seed(seed)
        call = {self._words.get(word, word): value for word, value in keywords.items()}
        if self._whole_size and "height" in keywords and "width" in keywords:
            call[SIZE] = f"{call.pop('height')}x{call.pop('width')}"
        if "seed" in self._own:
            call["seed"] = seed
        pictures = list(_pictures(getattr(self._model, METHOD)(**call)))
        if not pictures:
            raise MediaContractError(f"{type(self._model).__name__}.{METHOD} returned no image")
        return Images([_floats(picture) for picture in pictures])

    def to(self, device: torch.device | str) -> "GenerateImage":
        """Move the weights, unless they are spread over several devices."""
        if len(getattr(self._model, "hf_device_map", ())) <= 1:
            self._model.to(device)
        return self

    def set_progress_bar_config(self, **settings: Any) -> None:
        """Whatever bar such a model has, it has its own way to switch it off."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Steps are heard through a progress bar: that of the diffusers pipeline inside the model, where there is one."""
        inner = getattr(self._model, "pipeline", None) if name == "progress_bar" else None
        object.__setattr__(self if inner is None else inner, name, value)

    def _first(self, names: tuple[str, ...]) -> str | None:
        return next((name for name in names if name in self._own), None)


def _pictures(value: Any) -> Iterator[Image.Image]:
    """All pictures in what the call returned: one, several, or beside a text."""
    if isinstance(value, Image.Image):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _pictures(part)


def _floats(picture: Image.Image) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Levels as float32 in 0..1, which rounds back to the same levels."""
    kept = picture if picture.mode in ("RGB", "RGBA") else picture.convert("RGB")
    return np.asarray(kept, dtype=np.float32) / np.float32(255)
