"""Requests that are Python objects: of a program, of the flags, of a parquet file. They keep the rules of text rows."""

import math
import numbers
import os
from collections.abc import Mapping

import msgspec

from omni_cli.errors import Diagnostic
from omni_cli.prompts.jsonl import as_request
from omni_cli.prompts.row import NO_DEFAULTS, Row, Rows
from omni_cli.prompts.scan import MAX_DEPTH, MAX_DIGITS, Member, Node, Parsed
from omni_cli.prompts.validation import validate
from omni_cli.request import GenerationRequest


def validate_object(
    request: object,
    index: int,
    defaults: GenerationRequest,
    source: str | None = None,
) -> Rows:
    """Validate the request number `index` of a program: a request, a mapping of fields, or a string, its prompt.

    Diagnostics name `source`, or else `requests[2]`, and have no line.
    """
    source = source or f"requests[{index}]"
    values = {"prompt": request} if isinstance(request, str) else request
    if not isinstance(values, Mapping | GenerationRequest):
        cause = f"expected a prompt, a mapping of fields or a GenerationRequest, got {type(values).__name__}"
        yield Diagnostic(cause, 'give {"prompt": "..."}', source=source)
        return
    node = to_node(values)
    row = Row(source, 0, 0, b"", lambda _: as_request(Parsed(node)))
    yield from row.read(index, defaults)


def validate_fields(values: Mapping[str, object]) -> GenerationRequest | list[Diagnostic]:
    """Validate the values of some fields, which need no prompt: return them as a request, or their mistakes."""
    return validate(Parsed(to_node(values), complete=False), NO_DEFAULTS)


def to_node(value: object, offset: int = 0, depth: int = 0) -> Node:
    """Return `value` as the scanner returns JSON, all at `offset`; what JSON does not have becomes a Diagnostic."""
    if depth > MAX_DEPTH:
        return Node(offset, Diagnostic(f"nested deeper than {MAX_DEPTH} levels"))
    match value:
        case None | bool() | str():
            return Node(offset, value)
        case int():
            return Node(offset, value if abs(value) < 10**MAX_DIGITS else Diagnostic("this number is too large"))
        case float():
            return Node(offset, value if math.isfinite(value) else Diagnostic(f"{value} is not a finite number"))
        case list() | tuple():
            return Node(offset, [to_node(item, offset, depth + 1) for item in value])
        case Mapping():
            members = (Member(str(key), offset, to_node(item, offset, depth + 1)) for key, item in value.items())
            return Node(offset, tuple(members))
        case numbers.Integral():  # such as numpy's
            return to_node(int(value), offset, depth)
        case numbers.Real():
            return to_node(float(value), offset, depth)
        case os.PathLike():
            return to_node(os.fsdecode(value), offset, depth)
        case msgspec.Struct():
            fields = msgspec.structs.asdict(value)
            return to_node({key: item for key, item in fields.items() if item is not None}, offset, depth)
        case _:
            return Node(offset, Diagnostic(f"{type(value).__name__} is no text, number, path, list or object"))
