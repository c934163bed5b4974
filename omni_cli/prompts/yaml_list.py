"""YAML: a list of requests, each a mapping or a prompt alone; several documents, each a request; a mapping with a list.

Plain scalars are read as in YAML 1.2 and JSON (`no` and `1e3` are not what YAML 1.1 makes of them): true, false, null
and numbers, all else is text. The file is read whole.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import yaml

from omni_cli.errors import Diagnostic
from omni_cli.prompts.byte_stream import MAX_BYTES, ByteStream
from omni_cli.prompts.columns import Columns
from omni_cli.prompts.jsonl import as_request
from omni_cli.prompts.request_list import holds_requests
from omni_cli.prompts.row import Row, Rows, too_long
from omni_cli.prompts.scan import MAX_DEPTH, Member, Node, Parsed, number
from omni_cli.request import GenerationRequest
from omni_cli.text import escape

MAX_REPEATED = 100_000
"""Values that aliases may repeat: nested ones can stand for any number of them."""

_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_SCALARS = {"true": True, "false": False, "null": None, "~": None, "": None}


def read_yaml(stream: ByteStream, defaults: GenerationRequest, columns: Columns) -> Rows:
    """Read the requests of a YAML file. One that cannot be read is one mistake, at its place."""
    raw = stream.chunks(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        yield too_long(stream.name, 1, 1)
        return
    text = raw.decode("utf-8", "backslashreplace")
    try:
        nodes = list(_request_nodes(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
        cause = escape(" ".join(filter(None, (error.problem, error.context))))
        yield Diagnostic(cause, _QUOTES, source=stream.name, line=line, column=column)
        return
    except yaml.YAMLError as error:  # a character that YAML does not allow
        yield Diagnostic(escape(str(error).splitlines()[0]), _QUOTES, source=stream.name, line=1, column=1)
        return
    converter = _Converter(len(text) + MAX_REPEATED)  # without aliases, a file has fewer values than characters
    for index, node in enumerate(nodes):
        start = node.start_mark
        content = text[start.index : node.end_mark.index].encode()
        parse = partial(_parse, converter, node, columns)
        yield from Row(stream.name, start.line + 1, start.column + 1, content, parse).read(index, defaults)


def _request_nodes(text: str) -> Iterator[yaml.Node]:
    """Yield the node of each request. Raises yaml.YAMLError."""
    for document in yaml.compose_all(text, Loader=_LOADER):
        if isinstance(document, yaml.SequenceNode):
            yield from document.value
        elif (inside := _only_list(document)) is not None:
            yield from inside.value
        elif document is not None and not (isinstance(document, yaml.ScalarNode) and document.value == ""):
            yield document


def _only_list(document: yaml.Node | None) -> yaml.SequenceNode | None:
    """Return the list of requests that is all a document holds, None for any other document."""
    if not isinstance(document, yaml.MappingNode) or len(document.value) != 1:
        return None
    name, value = document.value[0]
    if not isinstance(name, yaml.ScalarNode) or not isinstance(value, yaml.SequenceNode):
        return None
    only_objects = all(isinstance(item, yaml.MappingNode) for item in value.value)
    return value if holds_requests(name.value, only_objects=only_objects) else None


def _parse(converter: "_Converter", node: yaml.Node, columns: Columns, _: str) -> Parsed:
    return columns.apply(as_request(Parsed(converter.convert(node, node.start_mark.index))))


class _Converter:
    """A converter of at most `limit` YAML nodes to those of the JSON scanner."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def convert(self, node: yaml.Node, origin: int, depth: int = 0) -> Node:
        """Return `node` with offsets from the character `origin` of the file."""
        offset = max(0, node.start_mark.index - origin)  # an alias stands for a node further up
        self._left -= 1
        if depth > MAX_DEPTH or self._left < 0:
            return Node(offset, Diagnostic("holds too many or too deeply nested values"))
        if isinstance(node, yaml.ScalarNode):
            return Node(offset, node.value if node.style else _plain_scalar(node.value))
        if isinstance(node, yaml.SequenceNode):
            return Node(offset, [self.convert(item, origin, depth + 1) for item in node.value])
        members, merged = list[Member](), list[Member]()
        for key, value in node.value:
            inner = self.convert(value, origin, depth + 1)
            if isinstance(key, yaml.ScalarNode) and key.value == "<<" and not key.style:
                sources = inner.value if isinstance(inner.value, list) else [inner]
                merged += [member for source in sources for member in Parsed(source).members]
            else:
                name = key.value if isinstance(key, yaml.ScalarNode) else "? "
                members.append(Member(name, max(0, key.start_mark.index - origin), inner))
        given = {member.key for member in members}
        for member in merged:
            if member.key not in given:
                members.append(member)
                given.add(member.key)
        return Node(offset, tuple(members))


def _plain_scalar(text: str) -> str | int | float | bool | Diagnostic | None:
    if text in _SCALARS:
        return _SCALARS[text]
    value = number(text)
    return text if value is None else value


_QUOTES = "put text that holds : # or quotes in double quotes"
