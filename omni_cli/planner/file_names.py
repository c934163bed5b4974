"""File names of a request, from its `output` field or from `--name-template`.

A template is a closed set of fields with plain format specs: no attributes, no indexing, no conversions.
"""

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omni_cli.errors import DiagnosticError, UsageError
from omni_cli.planner.sanitize import MAX_PART_BYTES, clean, neutral, shorten, split_extension
from omni_cli.request import GenerationRequest
from omni_cli.text import quote

TemplateValue = str | int | float

MAX_PROMPT_BYTES = 96
"""Bytes of a prompt in a name."""

_JOURNAL = "manifest.jsonl"

_SAMPLE_VALUES: Mapping[str, TemplateValue] = {
    "id": "",
    "index": 0,
    "n": 0,
    "seed": 0,
    "width": 0,
    "height": 0,
    "num_frames": 0,
    "num_inference_steps": 0,
    "guidance_scale": 0.0,
    "fps": 0.0,
    "prompt": "",
    "whole_prompt": "",
}
"""Fields of a template with a value of each type. `n` counts the outputs from 0, `seed` is the output's own.

`prompt` is cut and cleaned, `whole_prompt` must be part of a name as it is.
"""

META = "meta."
"""Prefix of a field that is a value of the request's `meta`: `{meta.category}`."""

_NO_NAME = "cannot be part of a file name as it is, which --layout or {whole_prompt} needs"

FIELDS = (*_SAMPLE_VALUES, f"{META}NAME")

_SPEC = re.compile(r"(?:.?[<>^=])?[+ ]?0?[0-9]{0,3}(?:\.[0-9]{1,3})?[dxXfgs]?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _TemplatePiece:
    """Literal text, then a field ("" for none) with its format spec."""

    literal: str
    field: str
    spec: str


class NameTemplate:
    """A parsed template. A `/` in its own text makes folders; a `/` in a value becomes "_"."""

    def __init__(self, text: str) -> None:
        """Parse `text`. Raises UsageError, which lists the fields, for a template that cannot be used."""
        try:
            parsed = list(string.Formatter().parse(text))
        except ValueError as error:
            raise _template_error(text, str(error)) from error
        self._pieces = tuple(
            _TemplatePiece(literal, _checked_field(text, field, spec, conversion), spec or "")
            for literal, field, spec, conversion in parsed
        )
        self.is_exact = any(piece.field == "whole_prompt" for piece in self._pieces)
        self.numbers_outputs = any(piece.field == "n" for piece in self._pieces)
        self._check_parts(text)

    def render(self, request: GenerationRequest, index: int, n: int, seed: int) -> str:
        """Return the path of output `n` without extension; its parts are not sanitized yet.

        Raises DiagnosticError if the template needs a value that is unknown before the pipeline runs.
        """
        values: dict[str, TemplateValue | None] = {
            "id": request.id,
            "index": index,
            "n": n,
            "seed": seed,
            "width": request.width,
            "height": request.height,
            "num_frames": request.num_frames,
            "num_inference_steps": request.num_inference_steps,
            "guidance_scale": request.guidance_scale,
            "fps": request.fps,
            "prompt": shorten(neutral(" ".join((request.prompt or "").split())), MAX_PROMPT_BYTES),
            "whole_prompt": _whole_prompt(request) if self.is_exact else "",
        }
        values |= {f"{META}{name}": _scalar(value) for name, value in (request.meta or {}).items()}
        return "".join(piece.literal + _format_value(piece, values) for piece in self._pieces)

    def _check_parts(self, text: str) -> None:
        example = "".join(piece.literal + ("x" if piece.field else "") for piece in self._pieces)
        if any(part in ("", ".", "..") for part in example.split("/")):
            raise _template_error(text, "it must be a relative path without empty, '.' or '..' parts")
        try:
            has_extension = split_extension(example)[1] != ""
        except DiagnosticError:
            has_extension = True
        if has_extension:
            raise _template_error(text, "leave the extension out, it follows from the format")


def file_names(
    request: GenerationRequest, index: int, seeds: Sequence[int], template: NameTemplate, extension: str
) -> tuple[str, ...]:
    """Return POSIX paths relative to the output folder, one per seed; several end in `-0`, `-1`, ...

    An extension in `output` is kept as written; else `extension` (with its dot) is added.
    Raises DiagnosticError for a name that leaves the folder, names a folder, or is reserved.
    """
    if request.output is not None:
        path, written = _split_output(request.output)
        extension = f".{written}" if written else extension
        stems = [path] * len(seeds)
    else:
        stems = [template.render(request, index, n, seed) for n, seed in enumerate(seeds)]
    is_numbered = len(seeds) > 1 and (request.output is not None or not template.numbers_outputs)
    max_bytes = MAX_PART_BYTES - len(extension) - (len(f"-{len(seeds) - 1}") if is_numbered else 0)
    endings = [(f"-{n}" if is_numbered else "") + extension for n in range(len(stems))]
    paths = tuple(_sanitized_path(stem, max_bytes, ending) for stem, ending in zip(stems, endings, strict=True))
    if template.is_exact and request.output is None and paths[0] != stems[0] + endings[0]:
        raise DiagnosticError(
            f"{quote(stems[0].rpartition('/')[2])} {_NO_NAME}",
            f"a name has at most {max_bytes} bytes, begins with no dot, dash or blank, and is no device of Windows",
            field="prompt",
        )
    return paths


def _split_output(output: str) -> tuple[str, str]:
    """Return the path without extension, and the extension as written, of an `output` field."""
    parts = output.split("/")
    if output.startswith("/") or ".." in parts:
        raise DiagnosticError(
            f"{quote(output)} leaves the output folder", "give a relative path without ..", field="output"
        )
    if parts[-1] in ("", "."):
        raise DiagnosticError(f"{quote(output)} names a folder", "end it with a file name", field="output")
    stem, extension = split_extension(parts[-1])
    return "/".join([*(part for part in parts[:-1] if part not in ("", ".")), stem]), extension


def _sanitized_path(stem: str, max_bytes: int, ending: str) -> str:
    """Return `stem` + `ending` with every part sanitized; the last part of `stem` gets at most `max_bytes` bytes."""
    *folders, name = stem.split("/")
    parts = [*(shorten(clean(folder), MAX_PART_BYTES) for folder in folders), shorten(clean(name), max_bytes) + ending]
    if parts[0].casefold() == _JOURNAL:
        raise DiagnosticError(f"{quote(parts[0])} is the journal's own name", "choose another", field="output")
    return "/".join(parts)


def _checked_field(text: str, field: str | None, spec: str | None, conversion: str | None) -> str:
    """Return `field`, "" for None. Raises UsageError if it or its format is not allowed."""
    if field is None:
        return ""
    if field not in _SAMPLE_VALUES and not (field.startswith(META) and field != META):
        raise _template_error(text, f"it has the unknown field {{{field}}}")
    if conversion or not _SPEC.fullmatch(spec or ""):
        raise _template_error(text, f"the format of {{{field}}} is not a plain one such as {{index:05d}}")
    try:
        format(_SAMPLE_VALUES.get(field, ""), spec or "")
    except ValueError as error:
        raise _template_error(text, f"the format of {{{field}}} does not fit: {error}") from error
    return field


def _format_value(piece: _TemplatePiece, values: Mapping[str, TemplateValue | None]) -> str:
    if not piece.field:
        return ""
    value = values.get(piece.field)
    if value is None:
        is_meta = piece.field.startswith(META)
        cause = "is not given" if is_meta else "is not known before rendering"
        raise DiagnosticError(
            f"{cause}, but --name-template uses {{{piece.field}}}",
            "give it as a text or a number" if is_meta else "set it in the request",
            field=piece.field,
        )
    return neutral(format(value, piece.spec))


def _whole_prompt(request: GenerationRequest) -> str:
    """Return the prompt. Raises DiagnosticError if it cannot be a part of a file name as it is."""
    prompt = request.prompt or ""
    if not prompt or neutral(prompt) != prompt:
        raise DiagnosticError(
            f"{quote(prompt)} {_NO_NAME}",
            'it is empty, or has one of / \\ < > : " | ? * or a control character',
            "prompt",
        )
    return prompt


def _scalar(value: object) -> TemplateValue | None:
    """Return a text, cut like a prompt, or a number as text, for a name; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return shorten(neutral(" ".join(str(value).split())), MAX_PROMPT_BYTES)


def _template_error(text: str, reason: str) -> UsageError:
    known = ", ".join(f"{{{field}}}" for field in FIELDS)
    return UsageError(f"--name-template {text!r}: {reason}; fields are {known}")
