"""JSON rows: one request a line, in our own names or as an OpenAI batch writes them."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from omni_cli.errors import Problem
from omni_cli.prompts.check import Parsed, has_input
from omni_cli.prompts.fields import RULES
from omni_cli.prompts.nodes import Fault, Member
from omni_cli.prompts.quick import Quick
from omni_cli.prompts.row import MAX_BYTES, Located, Row, judge
from omni_cli.prompts.rules import Unfit, describe
from omni_cli.prompts.scan import scan
from omni_cli.prompts.shown import quoted
from omni_cli.prompts.source import BLANK, Stream
from omni_cli.request import GenerationRequest

ENVELOPE = ("custom_id", "method", "url", "body")
"""Members of an OpenAI batch row."""

NOT_OURS = ("model", "user", "response_format", "moderation", "quality", "style")
"""Members of an OpenAI images body that address the service, not the picture's contents: accepted, without effect."""


def read_lines(stream: Stream, defaults: GenerationRequest) -> Iterator[Located | Problem]:
    """The requests of a JSONL stream, one a line; blank lines are skipped."""
    index, quick = 0, Quick()
    for number, raw in stream.lines():
        if raw is None:
            yield too_long(stream.name, number, 1)
        elif not raw.strip(BLANK):
            continue
        elif (request := quick.request(raw)) is not None:
            yield Located(request, index, stream.name, Row(stream.name, number, 1, raw, parse))
        else:
            yield from read_row(Row(stream.name, number, 1, raw, parse), index, defaults)
        index += 1


def read_row(row: Row, index: int, defaults: GenerationRequest) -> Iterator[Located | Problem]:
    """The request of a JSON row, or all its problems."""
    request = _decode(row.raw)
    if request is not None:
        yield Located(request, index, row.source, row)
    else:
        yield from judge(row, index, defaults)


def too_long(source: str, line: int, column: int) -> Problem:
    """The problem of a row that is not read because of its length."""
    return Problem(source, line, column, "", f"longer than {MAX_BYTES >> 20} MiB", "give one request a row")


def parse(text: str) -> Parsed:
    """The members of a JSON object; an OpenAI batch row gives those of its body, and its `custom_id`."""
    node, faults, whole = scan(text)
    if isinstance(node.value, tuple):
        return _unwrapped(Parsed(node.value, node.at, faults, whole))
    if whole:
        faults = [
            *faults,
            Fault(node.at, "", f"a request is an object, and {describe(node.value)}", 'write {"prompt": "..."}'),
        ]
    return Parsed((), node.at, faults, whole=False)


def _decode(raw: bytes) -> GenerationRequest | None:
    """The request, if the row is without fault and in our own names; None leaves it to the slow way to find out.

    A decoder keeps the last of two equal names silently. Every name in the text, at any depth, is followed by a quote and a
    colon; so if there are no more of these than fields with a value, no name was there twice.
    """
    try:
        request = _DECODER.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    said = 0
    for name, value in msgspec.structs.asdict(request).items():
        if value is None:
            continue
        said += 1
        try:
            if name not in RULES or RULES[name](value) != value:
                return None
        except Unfit:
            return None
    if len(_NAME.findall(raw)) != said or not has_input(request):
        return None
    return request


def _unwrapped(parsed: Parsed) -> Parsed:
    """The row itself, or what an OpenAI batch row holds."""
    outer = {member.key: member for member in reversed(parsed.members)}
    if "body" not in outer or not outer.keys() & {"custom_id", "url", "method"}:
        return parsed
    faults = [*parsed.faults, *_envelope_faults(parsed.members)]
    body = outer["body"].node
    inner: Sequence[Member] = ()
    if isinstance(body.value, tuple):
        inner = [member for member in body.value if member.key not in NOT_OURS]
    else:
        faults.append(Fault(body.at, "body", describe(body.value), 'give an object, such as {"prompt": "..."}'))
    names = [member for member in parsed.members if member.key == "custom_id" or member.key not in ENVELOPE]
    return Parsed([*names, *inner], body.at, faults, parsed.whole and isinstance(body.value, tuple))


def _envelope_faults(members: Sequence[Member]) -> Iterator[Fault]:
    """What is wrong with the envelope of an OpenAI batch row: an endpoint that makes no pictures, a member twice."""
    seen = set[str]()
    for key, at, node in members:
        if key in seen and key in ENVELOPE and key != "custom_id":
            yield Fault(at, key, "is given twice", "keep one")
        seen.add(key)
        url = node.value if isinstance(node.value, str) else ""
        if key == "url" and not _ENDPOINT.search(url):
            shown = quoted(url) if url else describe(node.value)
            yield Fault(
                node.at, "url", f"{shown} makes no images or videos", 'give "/v1/images/generations" or "/v1/videos"'
            )
        if key == "method" and node.value != "POST":
            yield Fault(node.at, "method", describe(node.value), 'give "POST"')


_DECODER = msgspec.json.Decoder(GenerationRequest)
_NAME = re.compile(rb'"[ \t\r\n]*+:')
_ENDPOINT = re.compile(r"/(images|videos)\b")
