"""Check a request against its pipeline's card, before anything is loaded."""

from collections.abc import Iterator
from typing import Any

import msgspec

from omni_cli.errors import Diagnostic, UsageError
from omni_cli.inputs import InputFile, replaced_files
from omni_cli.media import Kind
from omni_cli.models.cards import Card
from omni_cli.models.keywords import COUNTS, NAMES, OUTPUT_ONLY, OWNED, RESERVED, TEXTS
from omni_cli.models.signature import ValueTypes, call_parameters
from omni_cli.planner.resolve import ENCODE_ERRORS, Resolved, SourcedRequest, field_problem
from omni_cli.planner.sanitize import output_extension
from omni_cli.text import did_you_mean, escape, quote
from omni_cli.writers.formats import LATENT, check_fps, format_names, resolve_format

_KEYWORDS = {field: names for field, names in NAMES.items() if field not in OUTPUT_ONLY} | {
    text: (text,) for text in TEXTS
}
"""Fields that become keywords of a pipeline's call, with diffusers' names for them."""

_FIELDS = {name: field for field, names in NAMES.items() for name in names if name != field}
"""diffusers' other names of fields."""

_TYPE_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "object": "an object",
    "image": '{"image": "file.png"}',
    "tensor": '{"tensor": "file.safetensors"}',
}

_JSON_TYPES = frozenset({"int", "float", "bool", "str", "object"})
"""Types that JSON can write, and that no file holds."""


def card_problems(row: SourcedRequest, resolved: Resolved, card: Card) -> Iterator[Diagnostic]:
    """Yield whatever keeps the pipeline of `card` from doing exactly what the request asks."""
    yield from _size_problems(row, resolved, card)
    yield from _frame_problems(row, resolved, card)
    yield from _format_problems(row, resolved)
    if (row.request.interpolate or 1) > 1 and resolved.request.interpolate is None:
        # A flag is ignored by requests that make no video.
        output = "latents" if resolved.form.name == LATENT else f"{resolved.kind} output"
        yield row.problem("interpolate", f"there are no frames in {output}", "leave it out")
    if card.parameters:
        yield from _parameter_problems(row, resolved, card)
    yield from _extra_problems(row, resolved, card)
    try:
        msgspec.msgpack.encode(resolved.explicit)
        msgspec.json.encode(resolved.explicit)
    except ENCODE_ERRORS as error:
        cause = f"holds a value that cannot be passed on to the worker and the manifest: {escape(str(error))}"
        yield row.problem("", cause, "use plain JSON values")


def _size_problems(row: SourcedRequest, resolved: Resolved, card: Card) -> Iterator[Diagnostic]:
    for field, value in (("height", resolved.explicit.height), ("width", resolved.explicit.width)):
        if value is not None and not card.sizes.size_ok(value):
            cause = f"{value} is not a multiple of {card.sizes.multiple}"
            yield field_problem(row, field, cause, _nearest(card.sizes.nearest_sizes(value)))


def _frame_problems(row: SourcedRequest, resolved: Resolved, card: Card) -> Iterator[Diagnostic]:
    frames = resolved.explicit.num_frames
    if frames is None:
        return
    if card.kind is not Kind.VIDEO:
        if frames != 1:
            cause = f"{frames}: {card.pipeline} makes no video"
            yield field_problem(row, "num_frames", cause, "leave it out, or write 1")
    elif not card.sizes.frames_ok(frames):
        rule = f"{card.sizes.frame_step}·k + {card.sizes.frame_offset}"
        cause = f"{frames} is not {rule}"
        yield field_problem(row, "num_frames", cause, _nearest(card.sizes.nearest_frames(frames)))


def _format_problems(row: SourcedRequest, resolved: Resolved) -> Iterator[Diagnostic]:
    """Yield a format that cannot hold the kind, contradicts the extension of `output`, or lacks the fps it needs."""
    request, form, kind = row.request, resolved.form, resolved.kind
    extension = output_extension(request.output)
    if request.format and extension and resolve_format(extension).extension != form.extension:
        yield row.problem("output", f"ends in .{extension}, but format is {request.format}", "make them agree")
    elif kind not in form.kinds:
        cause = f"{form.name} cannot hold {kind} output"
        allowed = f"formats for {kind}: {format_names(kind) or 'none'}"
        if extension and not request.format:
            yield row.problem("output", cause, allowed)
        else:
            yield field_problem(row, "format", cause, allowed)
    elif kind is Kind.VIDEO:
        try:
            fps = resolved.request.fps
            check_fps(form, None if fps is None else fps * (resolved.request.interpolate or 1))
        except UsageError as error:
            if resolved.explicit.fps is None:
                yield row.problem("fps", str(error))
            else:
                yield field_problem(row, "fps", str(error))


def _parameter_problems(row: SourcedRequest, resolved: Resolved, card: Card) -> Iterator[Diagnostic]:
    for field, names in _KEYWORDS.items():
        if getattr(resolved.explicit, field) is None or any(name in card.parameters for name in names):
            continue
        if field == "num_frames" and (card.kind is not Kind.VIDEO or resolved.explicit.video is not None):
            continue  # of an input clip it is the number of frames to read
        yield field_problem(row, field, f"{card.pipeline} takes no {names[0]}", "leave it out")


def _extra_problems(row: SourcedRequest, resolved: Resolved, card: Card) -> Iterator[Diagnostic]:
    extra = resolved.explicit.extra or {}
    types_of = call_parameters(card.pipeline) or {} if extra else {}
    for key, value in extra.items():
        if key in OWNED:
            yield row.problem("extra", f"{quote(key)} is set by omni-gen", "leave it out")
        elif key in COUNTS:
            yield row.problem("extra", f"{quote(key)} is what num_outputs is for", "use num_outputs")
        elif (field := _FIELDS.get(key)) is not None and getattr(resolved.explicit, field) is not None:
            yield row.problem("extra", f"{quote(key)} is {field}, which is given too", f"keep {field} alone")
        elif key in _KEYWORDS:
            yield row.problem("extra", f"{quote(key)} is a field of its own", "move it out of extra")
        elif card.parameters and key not in card.parameters:
            known = [name for name in card.parameters if name not in RESERVED and name not in _KEYWORDS]
            yield row.problem(
                "extra",
                f"{card.pipeline} takes no {quote(key)}",
                did_you_mean(key, known, f"it takes {', '.join(known)}"),
            )
        elif (remedy := type_remedy(value, types_of.get(key))) is not None:
            yield row.problem("extra", f"{quote(key)} cannot be {describe_value(value)}", remedy)


def type_remedy(value: Any, types: ValueTypes | None) -> str | None:
    """Return what to write instead of `value` for a keyword of `types`; None if it fits or they are unknown."""
    if value is None or types is None or _fits(value, types):
        return None
    words = [
        f"a list of {_TYPE_WORDS[name[:-1]]}" if name.endswith("*") else _TYPE_WORDS[name]
        for name in sorted(types - {"null"})
    ]
    return f"give {' or '.join(words)}"


def describe_value(value: Any) -> str:
    """Return `value` in a few words, to follow "cannot be"."""
    match value:
        case bool() | int() | float():
            return str(value).lower()
        case str():
            return f"the text {quote(value)}"
        case list():
            return "this list" if value else "an empty list"
        case dict() if (file := _input_file(value)) is not None:
            return f"a file ({file.kind})"
        case _:
            return "an object"


def _fits(value: Any, types: ValueTypes) -> bool:
    match value:
        case None:
            return True
        case bool():
            return "bool" in types
        case int():
            return not types.isdisjoint(("int", "float"))
        case float():
            return "float" in types
        case str():
            return "str" in types
        case list():
            items = frozenset(name[:-1] for name in types if name.endswith("*"))
            # Signatures do not tell apart lists of lists, nor lists of tensors and of pictures: let those pass.
            return bool(items) and (
                not items <= _JSON_TYPES or all(isinstance(item, list) or _fits(item, items) for item in value)
            )
        case dict() if _input_file(value) is not None:
            return not frozenset(name.rstrip("*") for name in types - {"null"}) <= _JSON_TYPES
        case _:
            return "object" in types


def _input_file(value: dict[str, Any]) -> InputFile | None:
    """Return the file that an object such as `{"image": "a.png"}` names, None for plain data."""
    replaced = replaced_files(value, "", lambda file: file)
    return replaced if isinstance(replaced, InputFile) else None


def _nearest(values: tuple[int, ...]) -> str:
    return f"nearest {'are' if len(values) > 1 else 'is'} {' and '.join(map(str, values))}"
