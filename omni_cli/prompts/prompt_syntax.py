"""The prompt syntax of other tools as fields of the request: `--prompt-syntax a1111`.

a red circle <lora:ink:0.8> --w 64 --n blur   ──>   prompt, lora, width, negative_prompt
"""

import re
from typing import Any, NamedTuple

from msgspec import structs

from omni_cli.errors import DiagnosticError, UsageError
from omni_cli.prompts.attention import Weighted, first_weight, parse_weights
from omni_cli.prompts.lora_tags import TAG, LoraFolder
from omni_cli.prompts.prompt_flags import read_flags
from omni_cli.prompts.rules import A1111
from omni_cli.request import GenerationRequest
from omni_cli.text import quote


class ReadPrompt(NamedTuple):
    """A request without syntax in its texts; `places` are the characters of its prompt where flags give fields."""

    request: GenerationRequest
    places: dict[str, int]


class SyntaxReader:
    """Reads the syntax of AUTOMATIC1111's web UI, kohya's scripts and InvokeAI in the texts of requests."""

    def __init__(self, lora_dir: str | None, negative_prompt: str | None = None) -> None:
        """Find the adapters of tags in `lora_dir`; `negative_prompt` is that of requests without one.

        Raises UsageError if there is no such folder, or for a mistake in `negative_prompt`.
        """
        self._loras = LoraFolder(lora_dir)
        try:
            self._default_has_weights = first_weight(_negative_parts(negative_prompt or "")) is not None
        except DiagnosticError as error:
            raise UsageError(f"--negative-prompt: {error}") from error

    def read(self, request: GenerationRequest) -> ReadPrompt | None:
        """Return `request` as its texts say; None for a comment or a separator between prompts.

        Raises DiagnosticError with the field of the text in which the mistake is, and its offset there.
        """
        if not (self._default_has_weights or _has_marks(request.prompt) or _has_marks(request.negative_prompt)):
            return ReadPrompt(request, {})
        values: dict[str, Any] = {}
        places: dict[str, int] = {}
        if request.prompt is not None:
            if NO_PROMPT.fullmatch(request.prompt):
                return None
            values, places = self._prompt_values(request.prompt)
        for field, place in places.items():
            if field not in ("prompt", "prompt_weighting") and getattr(request, field) is not None:
                cause = f"{field} is given in the prompt and by the row"
                raise DiagnosticError(cause, "keep one", "prompt", place)
        if "lora" in values:
            values["lora"] = [*(request.lora or ()), *values["lora"]]
        read = structs.replace(request, **values)
        if read.negative_prompt is None and self._default_has_weights:
            return ReadPrompt(structs.replace(read, prompt_weighting=A1111), places)
        return ReadPrompt(_with_weighting(read, "negative_prompt" in values, places), places)

    def _prompt_values(self, text: str) -> tuple[dict[str, Any], dict[str, int]]:
        """Return the fields that the prompt `text` gives, itself among them, and their offsets in it."""
        try:
            prompt, values, places = read_flags(text)
        except DiagnosticError as error:
            raise _moved(error, "prompt", 0) from error
        start = places["prompt"]
        try:
            words, adapters = self._loras.take_tags(prompt)
            weighted = first_weight(parse_weights(TAG.sub(_blanks, prompt)))
        except DiagnosticError as error:
            raise _moved(error, "prompt", start) from error
        if adapters:
            values["lora"] = adapters
        if not words.strip():
            raise DiagnosticError("has no words besides flags and tags", "add what to render", "prompt", start)
        values["prompt"] = words
        if weighted is not None:
            values["prompt_weighting"], places["prompt_weighting"] = A1111, start + weighted.offset
        return values, places


def _with_weighting(request: GenerationRequest, is_in_prompt: bool, places: dict[str, int]) -> GenerationRequest:
    """Return `request` with a weighting if one of its texts has weights, else with brackets as the words that they are.

    `is_in_prompt`: its negative prompt is that of a flag in its prompt. Raises DiagnosticError.
    """
    field, start = ("prompt", places["negative_prompt"]) if is_in_prompt else ("negative_prompt", 0)
    try:
        parts = _negative_parts(request.negative_prompt or "")
    except DiagnosticError as error:
        raise _moved(error, field, start) from error
    if request.prompt_weighting is not None:
        return request
    if first_weight(parts) is not None:
        return structs.replace(request, prompt_weighting=A1111)
    plain = {"negative_prompt": "".join(part.text for part in parts)} if request.negative_prompt is not None else {}
    if request.prompt is not None:
        plain["prompt"] = "".join(part.text for part in parse_weights(request.prompt))
    return structs.replace(request, **plain)


def _negative_parts(text: str) -> list[Weighted]:
    """Return the parts of a negative prompt. Raises DiagnosticError, whose offset is in `text`."""
    if (tag := TAG.search(text)) is not None:
        cause = f"{quote(tag.group())} is read in prompts only"
        raise DiagnosticError(cause, "move it to the prompt", offset=tag.start())
    return parse_weights(text)


def _moved(error: DiagnosticError, field: str, start: int) -> DiagnosticError:
    diagnostic = error.diagnostic
    return DiagnosticError(diagnostic.cause, diagnostic.remedy, field, diagnostic.offset + start)


def _has_marks(text: str | None) -> bool:
    """Return whether `text` may hold syntax: most prompts hold none, and need not be parsed."""
    return text is not None and _MARKS.search(text) is not None


def _blanks(match: re.Match[str]) -> str:
    return " " * len(match.group())


_MARKS = re.compile(r"[<()\[\]\\]|(?:^|\s)-|^\s*//|---|BREAK|AND")

NO_PROMPT = re.compile(r"\s*(?://.*|-{3,}\s*)", re.DOTALL)
"""A comment of InvokeAI's, or a line that separates prompts."""
