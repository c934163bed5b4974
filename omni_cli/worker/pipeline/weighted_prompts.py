"""Prompt embeddings of texts with weights, `(red:1.3)`, by the compel library.

text ── parse_weights ──> parts with weights ── compel, once per text encoder ──> embeddings [1, tokens, width] ──┐
                                                                                                                 │
    prompt_embeds, negative_prompt_embeds, of XL the encoders side by side and pooled embeddings <───────────────┘

compel moves the embedding of a token away from that of the empty text by its weight, and interpolates towards the
prompt without the words below 1; the web UI multiplies, so the same weight gives another picture. Texts of more tokens
than the encoder reads are encoded in pieces, and none of them is cut. With all weights 1, the embeddings are those of
the pipeline.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import torch

from omni_cli.errors import DiagnosticError, ForwardError
from omni_cli.models.keywords import TEXTS
from omni_cli.prompts.attention import Weighted, parse_weights
from omni_cli.worker.pipeline.prompt_cuts import silent_copy
from omni_cli.worker.pipeline.prompt_embeds_cache import PromptEmbedsCache


class WeightedPrompts:
    """Encodes texts with weights for one loaded pipeline."""

    def __init__(self, pipeline: Any, dtype: torch.dtype, cache: PromptEmbedsCache) -> None:
        """Make embeddings of `dtype` and keep them in `cache`, whose owner clears it when the encoders change."""
        self._pipeline, self._dtype = pipeline, dtype
        self._is_xl = hasattr(pipeline, "text_encoder_2")
        self._encode = cache.cached("weighted_prompts", self._embeddings)

    def replace_texts(self, arguments: dict[str, Any], count: int) -> dict[str, Any]:
        """Return the arguments of a call of `count` samples with one text: embeddings in place of the texts.

        Raises ForwardError if compel is not installed, if an encoder is missing, or for a text with a mistake.
        """
        texts = [arguments.get(text) for text in TEXTS]
        prompt, negative = (text[0] if isinstance(text, list) else text for text in texts)
        embeddings: dict[str, torch.Tensor] = self._encode(prompt or "", negative)
        rows = {name: one.repeat(count, *[1] * (one.ndim - 1)) for name, one in embeddings.items()}
        return {name: value for name, value in arguments.items() if name not in TEXTS} | rows

    def _embeddings(self, prompt: str, negative: str | None) -> dict[str, torch.Tensor]:
        """Return the embeddings of both texts by argument: [1, tokens, width], equally long, and pooled [1, width]."""
        has_zeros = self._is_xl and negative is None and self._pipeline.config.get("force_zeros_for_empty_prompt")
        texts = [_parts(prompt)] if has_zeros else [_parts(prompt), _parts(negative or "")]
        encoders = self._encoders()
        by_encoder = [_encoded(compel, texts) for compel in encoders]
        names = ("prompt_embeds", "negative_prompt_embeds")
        result = {
            name: torch.cat(sides, dim=-1) for name, sides in zip(names, zip(*by_encoder, strict=True), strict=False)
        }
        if self._is_xl:
            provider, device = encoders[-1].conditioning_provider, self._pipeline._execution_device
            for name, parts in zip(names, texts, strict=False):
                words = "".join(part.text for part in parts)
                pooled = name.replace("prompt", "pooled_prompt")
                result[pooled] = provider.get_pooled_embeddings([words], device=device)
        return {name: tensor.to(self._dtype) for name, tensor in result.items()}

    def _encoders(self) -> list[Any]:
        """Return a new compel per text encoder: one remembers the embedding of the empty text."""
        try:
            compel = import_module("compel")
        except ImportError as error:
            raise ForwardError(f"weights in prompts need the compel package: pip install compel ({error})") from error
        layers, components = compel.ReturnedEmbeddingsType, self._pipeline.components
        pairs = [
            (components.get(f"tokenizer{suffix}"), components.get(f"text_encoder{suffix}"))
            for suffix in (["", "_2"] if self._is_xl else [""])
        ]
        if None in pairs[-1]:
            raise ForwardError(f"{type(self._pipeline).__name__}: weights in prompts need its text encoder")
        layer = layers.PENULTIMATE_HIDDEN_STATES_NON_NORMALIZED if self._is_xl else layers.LAST_HIDDEN_STATES_NORMALIZED
        return [
            compel.Compel(
                tokenizer=silent_copy(tokenizer),
                text_encoder=encoder,
                returned_embeddings_type=layer,
                truncate_long_prompts=False,
                device=self._pipeline._execution_device,
            )
            for tokenizer, encoder in pairs
            if tokenizer is not None and encoder is not None  # the refiner of XL has the second one only
        ]


def _parts(text: str) -> list[Weighted]:
    try:
        return parse_weights(text) or [Weighted("", 1.0, 0)]
    except DiagnosticError as error:
        raise ForwardError(f"weights cannot be read: {error}") from error


def _encoded(compel: Any, texts: Sequence[Sequence[Weighted]]) -> list[torch.Tensor]:
    """Return the embeddings of `texts` by one encoder, [1, tokens, width] each and equally long.

    The library's own prompt syntax, in which + and - are weights, is not used.
    """
    parser = import_module("compel.prompt_parser")
    prompts = [parser.FlattenedPrompt([parser.Fragment(part.text, part.weight) for part in parts]) for parts in texts]
    embeddings = [compel.build_conditioning_tensor_for_prompt_object(prompt)[0][0] for prompt in prompts]
    padded: list[torch.Tensor] = compel.pad_conditioning_tensors_to_same_length(embeddings)
    return padded
