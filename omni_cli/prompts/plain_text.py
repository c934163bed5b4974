"""Plain text: one prompt a line. Blank lines and lines that begin with # are skipped; `\\#` begins a prompt with #."""

from collections.abc import Iterator

from omni_cli.prompts.byte_stream import ByteStream, RawRow
from omni_cli.prompts.columns import Columns
from omni_cli.prompts.encoding import MARK
from omni_cli.prompts.fast_path import FastPath
from omni_cli.prompts.row import Rows, validate_rows
from omni_cli.prompts.scan import Member, Node, Parsed
from omni_cli.request import GenerationRequest


def read_plain(stream: ByteStream, defaults: GenerationRequest, columns: Columns) -> Rows:
    """Read the requests of a text file; blanks around a prompt do not belong to it. There are no columns in it."""
    return validate_rows(stream.name, _prompt_lines(stream), parse, defaults, _PlainFastPath())


def parse(text: str) -> Parsed:
    """Return a line as the prompt of a request with no other field."""
    prompt = text.removeprefix(MARK).lstrip()
    offset, prompt = len(text) - len(prompt), prompt.rstrip()
    if prompt.startswith("\\#"):
        offset, prompt = offset + 1, prompt[1:]
    return Parsed(Node(offset, (Member("prompt", offset, Node(offset, prompt)),)))


class _PlainFastPath(FastPath):
    """The fast path of lines in printing ASCII."""

    def request(self, raw: bytes) -> GenerationRequest | None:
        prompt = raw.decode("utf-8", "replace").strip()
        plain = prompt.isascii() and prompt.isprintable() and prompt[0] != "\\"
        return GenerationRequest(prompt=prompt) if plain else None


def _prompt_lines(stream: ByteStream) -> Iterator[RawRow]:
    for line in stream.lines():
        text = None if line.raw is None else line.raw.decode("utf-8", "replace").removeprefix(MARK).strip()
        if text is None or (text and not text.startswith("#")):
            yield line
