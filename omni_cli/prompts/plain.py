"""Plain text: a prompt a line. Blank lines and lines that begin with # are skipped; `\\#` begins a prompt with a #."""

from collections.abc import Iterator

from omni_cli.errors import Problem
from omni_cli.prompts.check import Parsed
from omni_cli.prompts.jsonl import too_long
from omni_cli.prompts.nodes import Member, Node
from omni_cli.prompts.row import Located, Row, judge
from omni_cli.prompts.source import Stream
from omni_cli.request import GenerationRequest


def read_plain(stream: Stream, defaults: GenerationRequest) -> Iterator[Located | Problem]:
    """The requests of a text file; the blanks around a prompt do not belong to it."""
    index = 0
    for number, raw in stream.lines():
        if raw is None:
            yield too_long(stream.name, number, 1)
        elif not (line := raw.decode("utf-8", "replace").strip()) or line.startswith("#"):
            continue
        elif line.isascii() and line.isprintable() and line[0] != "\\":  # can have no fault
            yield Located(GenerationRequest(prompt=line), index, stream.name, Row(stream.name, number, 1, raw, parse))
        else:
            yield from judge(Row(stream.name, number, 1, raw, parse), index, defaults)
        index += 1


def parse(text: str) -> Parsed:
    """A line as a request with nothing but a prompt."""
    at = len(text) - len(text.lstrip())
    prompt = text.strip()
    if prompt.startswith("\\#"):
        at, prompt = at + 1, prompt[1:]
    return Parsed((Member("prompt", at, Node(at, prompt)),), at)
