"""Notes on one call of a pipeline: what the libraries warned of, prompts that were cut, guidance without effect.

pipeline ── tokenizers ──> PromptWatch ──────────────┐
         ── loggers, warnings ──> library_warnings ──┤
         ── encode_prompt ──> PromptEmbedsCache: what was collected at the first time ──┤
                                                     └──> remarks ── per sample ──> notes of the rows
"""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from omni_cli.models.cards import Card
from omni_cli.request import GenerationRequest
from omni_cli.worker.pipeline.invocation import Invocation, Sample
from omni_cli.worker.pipeline.library_warnings import library_warnings
from omni_cli.worker.pipeline.prompt_cuts import PromptCut, PromptWatch, find_field

NSFW_FIELDS = ("nsfw_content_detected", "nsfw_detected")
"""Names of the safety checker's flags, one per sample, in diffusers' output classes."""

MAX_REMARKS = 1000
"""Remarks of one call that are kept: a library may repeat a warning at every step."""

_ON_CUTS = "was truncated because"
"""Words of diffusers' own warning about a prompt that is too long."""

_ON_LENGTH = "Token indices sequence length is longer"
"""Words of transformers' warning about a text that may only have been counted, not encoded."""

_ON_NSFW = "NSFW content was detected"

Remark = str | PromptCut


class Remarks(list[Remark]):
    """What has been collected since the current call of the pipeline began, in order and with repetitions."""

    def collect(self, remark: Remark) -> None:
        """Add `remark`, unless there are too many."""
        if len(self) < MAX_REMARKS:
            self.append(remark)


class CallNotes:
    """Notes on the calls of one loaded pipeline."""

    def __init__(self, pipeline: Any, card: Card, remarks: Remarks) -> None:
        """Watch the tokenizers of `pipeline`. `remarks` is shared with the cache of its prompt embeddings."""
        self._pipeline = pipeline
        self._card = card
        self._remarks = remarks
        self._watch = PromptWatch(pipeline, remarks.collect)
        self._default_cfg = _default_of(pipeline, "true_cfg_scale")

    @contextmanager
    def collecting(self, call: Invocation) -> Iterator[None]:
        """Collect remarks on `call` inside the `with` block, in place of those on the call before."""
        self._remarks.clear()
        texts = [text for sample in call.samples for text in (sample.prompt, sample.negative_prompt) if text]
        self._watch.begin(texts, call.shared.get("max_sequence_length"))
        with library_warnings(self._remarks.collect):
            yield

    def of(self, call: Invocation, request: GenerationRequest, is_nsfw: Sequence[bool]) -> list[tuple[str, ...]]:
        """Return the notes on each sample of `call`, which has ended; `is_nsfw` is what `nsfw_flags` returned."""
        remarks = dict.fromkeys(self._remarks)
        notes: list[dict[str, None]] = [{} for _ in call.samples]
        cuts = [remark for remark in remarks if isinstance(remark, PromptCut)]
        for cut in cuts:
            for field, samples in _owners(cut, call):
                for index in samples:
                    notes[index][cut.note(field)] = None
        texts = [remark for remark in remarks if isinstance(remark, str)]
        if cuts:
            texts = [text for text in texts if _ON_CUTS not in text]
        if self._watch.tokenizers:
            texts = [text for text in texts if _ON_LENGTH not in text]
        if any(is_nsfw):
            texts = [text for text in texts if _ON_NSFW not in text]
        is_guidance_noted = any("guidance" in text for text in texts)
        for sample, found in zip(call.samples, notes, strict=True):
            found.update(dict.fromkeys(texts))
            if not is_guidance_noted:
                found.update(dict.fromkeys(self._guidance_notes(sample, request, call.shared)))
        return [tuple(found) for found in notes]

    def _guidance_notes(self, sample: Sample, request: GenerationRequest, shared: dict[str, Any]) -> Iterator[str]:
        """Yield notes on guidance that was asked for and that the pipeline, which was just called, did not apply."""
        is_guided = _classifier_free_guidance(self._pipeline)
        config = getattr(getattr(self._pipeline, "transformer", None), "config", None)
        if request.guidance_scale is not None and not is_guided and getattr(config, "guidance_embeds", None) is False:
            yield f"guidance_scale {request.guidance_scale:g} has no effect: this model is distilled without guidance"
        has_negative = bool(sample.negative_prompt)
        if "true_cfg_scale" not in self._card.parameters:
            if has_negative and is_guided is False:
                yield "negative_prompt has no effect: classifier-free guidance is off; set guidance_scale above 1"
            return
        scale = shared.get("true_cfg_scale", self._default_cfg)
        if has_negative and isinstance(scale, int | float) and scale <= 1:
            yield f"negative_prompt has no effect: true_cfg_scale is {scale:g}; set it above 1"
        has_negative = sample.negative_prompt is not None or shared.get("negative_prompt_embeds") is not None
        if request.true_cfg_scale is not None and request.true_cfg_scale > 1 and not has_negative:
            yield f"true_cfg_scale {request.true_cfg_scale:g} has no effect without a negative_prompt"


def nsfw_flags(output: Any, samples: int) -> tuple[bool, ...]:
    """Return whether the safety checker of the pipeline blackened each of `samples` samples of its `output`."""
    for name in NSFW_FIELDS:
        flags = getattr(output, name, None)
        if isinstance(flags, list | tuple) and len(flags) == samples:
            return tuple(map(bool, flags))
    return (False,) * samples


def nsfw_note(flags: Sequence[bool]) -> str:
    """Return the note for a request with these flags, one per sample; empty if no sample is blackened."""
    if not any(flags):
        return ""
    found = [str(index) for index, flag in enumerate(flags) if flag]
    which = "it" if len(flags) == 1 else f"sample{'s' if len(found) > 1 else ''} {', '.join(found)} of {len(flags)}"
    return f"blackened: the safety checker of the pipeline took {which} for NSFW content"


def _owners(cut: PromptCut, call: Invocation) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield the name of the field that `cut` is about, with its samples; all samples for a text that they share."""
    fields = [
        (name, text, range(index, index + 1))
        for index, sample in enumerate(call.samples)
        for name, text in (("prompt", sample.prompt), ("negative_prompt", sample.negative_prompt))
    ]
    everyone = range(len(call.samples))
    fields += [(name, value, everyone) for name, value in call.shared.items() if isinstance(value, str)]
    indices = find_field(cut, [(name, text) for name, text, _ in fields])
    yield from (fields[index][::2] for index in indices)
    if not indices:
        yield "a text", everyone


def _classifier_free_guidance(pipeline: Any) -> bool | None:
    """Return whether the last call of `pipeline` guided with a negative prompt; None if it does not say."""
    if not isinstance(getattr(type(pipeline), "do_classifier_free_guidance", None), property):
        return None
    try:
        return bool(pipeline.do_classifier_free_guidance)
    except AttributeError:  # it reads what only some calls set
        return None


def _default_of(pipeline: Any, name: str) -> Any:
    """Return the default of a parameter of the pipeline's call; None if it has no such parameter."""
    parameter = inspect.signature(type(pipeline).__call__).parameters.get(name)
    return None if parameter is None else parameter.default
