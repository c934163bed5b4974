"""Rows of OpenAI batch files: `{"custom_id", "method", "url", "body"}` for images/generations, images/edits and videos.

Of a body's members, those that describe the output become fields of a request, those that address the service are left
out, and those that the service alone can follow are left out with a warning. A body for an endpoint of images asks for
one frame. Source: OpenAI's API reference.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from omni_cli.errors import Diagnostic
from omni_cli.prompts.rules import unexpected
from omni_cli.prompts.scan import Member, Node, Parsed

ENVELOPE = ("custom_id", "method", "url", "body")
"""Members of a row."""

SERVICE = frozenset({"model", "user", "response_format", "moderation", "stream", "partial_images"})
"""Members of a body that address the service and not the picture: accepted, without effect."""

NO_EFFECT = frozenset({"quality", "style", "input_fidelity"})
"""Members of a body that ask for what other models do not have: accepted with a warning."""

FIELDS = {
    "output_format": "format",
    "output_compression": "quality",
    "input_reference": "image",
    "images": "image",
}
"""Members of a body under other names than the fields that they mean."""

_REFERENCES = ("image_url", "file_id")
"""Members of an object that stands for an input file."""

_ENDPOINT = re.compile(r"/(images|videos)\b")

_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


def unwrap_batch_row(parsed: Parsed) -> Parsed:
    """Return `parsed` itself, or what a batch row holds."""
    outer = {member.key: member for member in reversed(parsed.members)}
    if "body" not in outer or not outer.keys() & {"custom_id", "url", "method"}:
        return parsed
    diagnostics = [*parsed.diagnostics, *_envelope_diagnostics(parsed.members)]
    body = outer["body"].node
    is_object = isinstance(body.value, tuple)
    if not is_object:
        error = unexpected(body.value, 'an object, such as {"prompt": "..."}')
        diagnostics.append(error.at("body", body.offset))
    names = [member for member in parsed.members if member.key == "custom_id" or member.key not in ENVELOPE]
    members = Parsed(body).members
    inner = [_as_field(member) for member in members if not _is_left_out(member)]
    without_effect = tuple(member.key for member in members if member.key in NO_EFFECT)
    if _is_of_images(outer.get("url")) and all(member.key != "num_frames" for member in inner):
        inner.append(Member("num_frames", body.offset, Node(body.offset, 1)))
    node = Node(body.offset, (*names, *inner))
    return Parsed(node, diagnostics, parsed.complete and is_object, without_effect)


def _is_of_images(url: Member | None) -> bool:
    return url is not None and isinstance(url.node.value, str) and "/images" in url.node.value


def _is_left_out(member: Member) -> bool:
    opaque = member.key == "background" and member.node.value in ("auto", "opaque")
    return opaque or member.key in SERVICE or member.key in NO_EFFECT


def _as_field(member: Member) -> Member:
    """Return a member of a body under the name of a field where that has the same meaning, in its type."""
    key = FIELDS.get(member.key, member.key)
    value, offset = member.node.value, member.node.offset
    match key:
        case "image" | "mask":
            return member._replace(key=key, node=_input_node(member.node))
        case "seconds" if isinstance(value, str) and _DECIMAL.fullmatch(value):
            return member._replace(node=Node(offset, float(value)))
        case "quality" if value == 0 and not isinstance(value, bool):
            return member._replace(key=key, node=Node(offset, 1))  # the scale there begins at 0
    return member._replace(key=key)


def _input_node(node: Node) -> Node:
    """Return the node of an input with the paths that its objects name; a file of the service is a mistake."""
    if isinstance(node.value, list):
        items = [_input_node(item) for item in node.value]
        return items[0] if len(items) == 1 else Node(node.offset, items)
    references = {member.key: member.node for member in Parsed(node).members}
    if not references or not references.keys() <= set(_REFERENCES):
        return node
    if "image_url" in references:
        return _url_node(references["image_url"])
    return Node(references["file_id"].offset, Diagnostic("is a file of the service, not of this machine"))


def _url_node(node: Node) -> Node:
    """Return the node of `{"url": ...}`, as chat messages have it, or the node itself."""
    inner: Any = next((member.node for member in Parsed(node).members if member.key == "url"), node)
    return Node(inner.offset, inner.value)


def _envelope_diagnostics(members: Sequence[Member]) -> Iterator[Diagnostic]:
    """Yield the mistakes in the envelope of a row: a member twice, an endpoint that makes no pictures."""
    seen = set[str]()
    for key, offset, node in members:
        if key in seen and key in ENVELOPE and key != "custom_id":
            yield Diagnostic("is given twice", "keep one", key, offset=offset)
        seen.add(key)
        if key == "url" and not (isinstance(node.value, str) and _ENDPOINT.search(node.value)):
            yield unexpected(node.value, '"/v1/images/generations" or "/v1/videos"').at(key, node.offset)
        if key == "method" and node.value != "POST":
            yield unexpected(node.value, '"POST"').at(key, node.offset)
