"""From the named values of a row to a request, or to a diagnostic for each of its mistakes."""

from typing import Any

from omni_cli.errors import Diagnostic
from omni_cli.prompts import rules
from omni_cli.prompts.fields import NAMES, NESTED, RULES, SIZE, apply_rule, field_of, filled_fields
from omni_cli.prompts.foreign_names import meant_field, unknown_field_advice
from omni_cli.prompts.scan import Member, Node, Parsed
from omni_cli.request import GenerationRequest
from omni_cli.text import nearest, quote

MAX_DIAGNOSTICS = 100
"""Mistakes of one row that are reported; a row with more is no row of requests."""

INPUTS = frozenset({"prompt", "prompt_embeds", "image", "last_image", "video", "extra"})
"""Fields that can hold something to generate from."""


def validate(parsed: Parsed, defaults: GenerationRequest) -> GenerationRequest | list[Diagnostic]:
    """Return the request that `parsed` asks for, or all its mistakes in the order of their offsets.

    An input among `defaults` makes up for a row without one.
    """
    diagnostics = list(parsed.diagnostics)
    values: dict[str, Any] = {}
    names: dict[str, str] = {}  # of the fields so far, as the row writes them
    intended: set[str] = set()
    for member in parsed.members:
        if len(diagnostics) > MAX_DIAGNOSTICS:
            break
        field = field_of(member.key)
        first = next((names[filled] for filled in filled_fields(field) if filled in names), None)
        if field is None:
            remedy = unknown_field_advice(member.key)
            diagnostics.append(Diagnostic(f"unknown field {quote(member.key)}", remedy, offset=member.offset))
            intended.add(meant_field(member.key) or nearest(member.key, NAMES))
        elif first is not None:
            diagnostics.append(_given_twice(member, field, first))
        else:
            names.update(dict.fromkeys(filled_fields(field), member.key))
            if member.node.value is not None:
                intended.add(field)
                values.update(_field_values(field, member.node, diagnostics))
    if parsed.complete and not INPUTS & (intended - values.keys()):
        diagnostics.extend(_missing_input(parsed, values, defaults))
    if not diagnostics:
        return GenerationRequest(**values)
    diagnostics.sort(key=lambda diagnostic: diagnostic.offset)
    if len(diagnostics) > MAX_DIAGNOSTICS:
        more = Diagnostic(f"more than {MAX_DIAGNOSTICS} problems in this row", "correct these first")
        diagnostics[MAX_DIAGNOSTICS:] = [more]
    return diagnostics


def offset_of(parsed: Parsed, field: str) -> int:
    """Return the offset of the value of `field`, whatever name it has in the row; of the row if it is not given."""
    for member in parsed.members:
        if field in filled_fields(field_of(member.key)) or field == member.key:
            return member.node.offset
    return parsed.node.offset


def has_input(request: GenerationRequest) -> bool:
    """Return True if there is something to generate from: a prompt, embeddings, an image, a video, other keywords.

    A blank prompt does not count. A pipeline that takes no prompt gets its input through `extra` (`{"class_labels":
    [207]}`, `{"eta": 0.0}`).
    """
    text = (request.prompt is not None and request.prompt.strip()) or request.prompt_embeds
    return bool(text or request.image or request.last_image or request.video or request.extra)


def _field_values(field: str, node: Node, diagnostics: list[Diagnostic]) -> dict[str, Any]:
    """Return the values of the request's fields that `node` gives; none if it breaks a rule."""
    before = len(diagnostics)
    if field in NESTED:
        value = NESTED[field](node, diagnostics)
    else:
        value = apply_rule(rules.size if field == SIZE else RULES[field], node, field, diagnostics)
    if len(diagnostics) > before or value is None:
        return {}
    return dict(zip(filled_fields(field), value if field == SIZE else (value,), strict=True))


def _missing_input(parsed: Parsed, values: dict[str, Any], defaults: GenerationRequest) -> list[Diagnostic]:
    """Return the diagnostic of a row without anything to generate from, unless `defaults` have it."""
    inputs = GenerationRequest(**{field: values[field] for field in INPUTS & values.keys()})
    if has_input(inputs) or has_input(defaults):
        return []
    cause = "is empty" if "prompt" in values else "is missing"
    remedy = "give a prompt, or an image or a video to start from"
    return [Diagnostic(cause, remedy, "prompt", offset=offset_of(parsed, "prompt"))]


def _given_twice(member: Member, field: str, first: str) -> Diagnostic:
    cause = "is given twice" if first == member.key else f"is given as {quote(first)} and as {quote(member.key)}"
    return Diagnostic(cause, "keep one", field, offset=member.offset)
