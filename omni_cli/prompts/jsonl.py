"""JSON rows, a request each: with our own names, as OpenAI's batches or other engines have them, or a prompt alone."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from omni_cli.errors import Diagnostic
from omni_cli.log import logger
from omni_cli.prompts.byte_stream import ByteStream, RawRow
from omni_cli.prompts.columns import Columns
from omni_cli.prompts.fast_path import FastPath, JsonFastPath
from omni_cli.prompts.json_values import json_values
from omni_cli.prompts.openai_batch import unwrap_batch_row
from omni_cli.prompts.row import Rows, validate_rows
from omni_cli.prompts.rules import unexpected
from omni_cli.prompts.scan import Member, Node, Parsed, scan
from omni_cli.request import GenerationRequest

SAMPLING_PARAMS = "sampling_params"
"""An object of fields in the request manifests of vLLM-Omni, SGLang and FastVideo."""


def read_lines(stream: ByteStream, defaults: GenerationRequest, columns: Columns) -> Rows:
    """Read the requests of a JSONL stream, one a line; blank lines are skipped."""
    return _read(stream, stream.lines(), defaults, columns)


def read_values(stream: ByteStream, defaults: GenerationRequest, columns: Columns) -> Rows:
    """Read the requests of a JSON array, of objects over any lines, or of an object that holds a list of requests."""
    return _read(stream, json_values(stream), defaults, columns)


def _read(
    stream: ByteStream, rows: Iterator[RawRow | Diagnostic], defaults: GenerationRequest, columns: Columns
) -> Rows:
    if columns.are_fields:
        return validate_rows(stream.name, rows, _telling(parse), defaults, JsonFastPath())
    return validate_rows(stream.name, rows, _telling(lambda text: columns.apply(parse(text))), defaults, FastPath())


def _telling(parse_row: Callable[[str], Parsed]) -> Callable[[str], Parsed]:
    """Return `parse_row` with one warning for each name whose values have no effect here."""
    told: set[str] = set()

    def parse_and_tell(text: str) -> Parsed:
        parsed = parse_row(text)
        for name in parsed.without_effect:
            if name not in told:
                told.add(name)
                logger.warning("%s of the OpenAI batch has no effect: it is a setting of that service's models", name)
        return parsed

    return parse_and_tell


def parse(text: str) -> Parsed:
    """Scan the JSON text of a request."""
    return as_request(scan(text))


def as_request(parsed: Parsed) -> Parsed:
    """Return what `parsed` holds as the members of a request: an object's, or of a text a prompt.

    Of an OpenAI batch row, take the members of its body, and its `custom_id`.
    """
    if isinstance(parsed.node.value, tuple):
        return unwrap_batch_row(_with_nested_fields(parsed))
    if isinstance(parsed.node.value, str):
        return replace(parsed, node=Node(parsed.node.offset, (Member("prompt", parsed.node.offset, parsed.node),)))
    diagnostics = list(parsed.diagnostics)
    if parsed.complete:
        error = unexpected(parsed.node.value, 'an object, such as {"prompt": "..."}')
        diagnostics.append(error.at("", parsed.node.offset))
    return Parsed(parsed.node, diagnostics, complete=False)


def _with_nested_fields(parsed: Parsed) -> Parsed:
    """Return `parsed` with the members of `sampling_params`, in which other engines keep the fields of a request."""
    if all(member.key != SAMPLING_PARAMS for member in parsed.members):
        return parsed
    members = [
        inner
        for member in parsed.members
        for inner in (Parsed(member.node).members if member.key == SAMPLING_PARAMS else None) or (member,)
    ]
    return replace(parsed, node=Node(parsed.node.offset, tuple(members)))
