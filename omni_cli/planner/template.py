"""`--name-template`: a closed set of fields and plain format specs; no attributes, no indexing, no conversions."""

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass

from omni_cli.errors import UsageError
from omni_cli.planner.naming import Misnamed, fit, neutral, split_extension
from omni_cli.request import GenerationRequest

Value = str | int | float

PROMPT_BYTES = 96
"""Bytes of a prompt that a name takes."""

_SAMPLES: Mapping[str, Value] = {
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
}
"""The fields of a template, each with a value of its type. `n` counts the outputs of a request from 0; `seed` is the output's own."""

FIELDS = tuple(_SAMPLES)

_SPEC = re.compile(r"(?:.?[<>^=])?[+ ]?0?[0-9]{0,3}(?:\.[0-9]{1,3})?[dxXfgs]?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Literal text, then a field (empty for none) with its format spec."""

    literal: str
    field: str
    spec: str


class NameTemplate:
    """A parsed template. `/` in its own text makes folders; in a value it becomes "_"."""

    def __init__(self, text: str) -> None:
        """Parse `text`; UsageError names what is wrong with it and the fields there are."""
        try:
            parsed = list(string.Formatter().parse(text))
        except ValueError as error:
            raise _bad(text, str(error)) from error
        self._pieces = tuple(
            _Piece(literal, _known(text, field, spec, conversion), spec or "")
            for literal, field, spec, conversion in parsed
        )
        self.numbered = any(piece.field == "n" for piece in self._pieces)
        self._check_parts(text)

    def render(self, request: GenerationRequest, index: int, n: int, seed: int) -> str:
        """The path of output `n` without extension, its parts not cleaned yet.

        Raises Misnamed if the template wants something that is not known before the pipeline runs.
        """
        values = _values(request, index, n, seed)
        return "".join(piece.literal + _text(piece, values) for piece in self._pieces)

    def _check_parts(self, text: str) -> None:
        shape = "".join(piece.literal + ("x" if piece.field else "") for piece in self._pieces)
        if any(part in ("", ".", "..") for part in shape.split("/")):
            raise _bad(text, "it must be a relative path without empty, '.' or '..' parts")
        try:
            extension = split_extension(shape)[1]
        except Misnamed as error:
            extension = error.message
        if extension:
            raise _bad(text, "leave the extension out, it follows from the format")


def _known(text: str, field: str | None, spec: str | None, conversion: str | None) -> str:
    """`field` if it and its spec are allowed; "" if there is none."""
    if field is None:
        return ""
    if field not in _SAMPLES:
        raise _bad(text, f"it has the unknown field {{{field}}}")
    if conversion or not _SPEC.fullmatch(spec or ""):
        raise _bad(text, f"the format of {{{field}}} is not a plain one such as {{index:05d}}")
    try:
        format(_SAMPLES[field], spec or "")
    except ValueError as error:
        raise _bad(text, f"the format of {{{field}}} does not fit: {error}") from error
    return field


def _values(request: GenerationRequest, index: int, n: int, seed: int) -> dict[str, Value | None]:
    return {
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
        "prompt": fit(neutral(" ".join((request.prompt or "").split())), PROMPT_BYTES),
    }


def _text(piece: _Piece, values: Mapping[str, Value | None]) -> str:
    if not piece.field:
        return ""
    value = values[piece.field]
    if value is None:
        raise Misnamed(
            piece.field, f"is not known before rendering, but --name-template uses {{{piece.field}}}", "say it"
        )
    return neutral(format(value, piece.spec))


def _bad(text: str, reason: str) -> UsageError:
    known = ", ".join(f"{{{field}}}" for field in FIELDS)
    return UsageError(f"--name-template {text!r}: {reason}; fields are {known}")
