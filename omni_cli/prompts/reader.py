"""One door for every kind of prompt file: find the format, open the source, read on past every fault."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from omni_cli.errors import Problem, UsageError
from omni_cli.prompts.array import read_array
from omni_cli.prompts.jsonl import read_lines
from omni_cli.prompts.parquet import read_parquet
from omni_cli.prompts.plain import read_plain
from omni_cli.prompts.row import NO_DEFAULTS, Located
from omni_cli.prompts.shown import quoted
from omni_cli.prompts.source import Stream, display_name, is_pipe, opened
from omni_cli.prompts.table import read_csv, read_tsv
from omni_cli.request import GenerationRequest

Rows = Iterator[Located | Problem]

STREAMED: Mapping[str, Callable[[Stream, GenerationRequest], Rows]] = {
    "jsonl": read_lines,
    "json": read_array,
    "csv": read_csv,
    "tsv": read_tsv,
    "txt": read_plain,
}

PARQUET = "parquet"

FILE_FORMATS = (*STREAMED, PARQUET)
"""Names of the formats that `read` takes; each is also the extension of its files."""

_SAME = {"ndjson": "jsonl"}


def read(
    source: str | Path,
    *,
    stdin: BinaryIO | None = None,
    format: str | None = None,  # noqa: A002 - the word that callers use
    defaults: GenerationRequest = NO_DEFAULTS,
) -> Rows:
    """Read the requests of `source`, lazily and in file order; "-" reads `stdin` (the process's own if None).

    Every row gives one Located, or a Problem for each of its faults; nothing in the content raises, and reading goes on after
    a fault. The format is `format`, else the extension's; standard input and pipes are looked at: `{` begins JSONL, `[` a JSON
    array, anything else is text. `defaults` are the values that flags give: an input among them excuses a row without one.

    Raises UsageError, at once, if the source cannot be read or its format is not known; while reading, if the device fails.
    """
    chosen = _format_of(source, format)
    return _read(source, stdin, chosen, defaults)


def _read(source: str | Path, stdin: BinaryIO | None, chosen: str | None, defaults: GenerationRequest) -> Rows:
    empty = True
    for row in _rows(source, stdin, chosen, defaults):
        empty = False
        yield row
    if empty:
        yield Problem(display_name(source), 1, 1, "", "no requests", "give at least one")


def _rows(source: str | Path, stdin: BinaryIO | None, chosen: str | None, defaults: GenerationRequest) -> Rows:
    if chosen == PARQUET:
        yield from read_parquet(source, display_name(source), defaults)
        return
    with opened(source, stdin) as stream:
        if stream.encoding_fault is not None:
            yield Problem(stream.name, 1, 1, "", f"the file is {stream.encoding_fault}", "save it as UTF-8")
            return
        yield from STREAMED[chosen or _SNIFFED.get(stream.first(), "txt")](stream, defaults)


_SNIFFED = {b"{": "jsonl", b"[": "json"}


def _format_of(source: str | Path, asked: str | None) -> str | None:
    """The format to read `source` in; None if only its content can tell. Raises UsageError."""
    pipe = is_pipe(source)
    extension = Path(source).suffix.lower().removeprefix(".")
    name = asked or ("" if pipe else extension)
    chosen = _SAME.get(name, name)
    if pipe and chosen == PARQUET:
        raise UsageError("a parquet file cannot be read from a pipe; give its path")
    if chosen in FILE_FORMATS or (pipe and not chosen):
        return chosen or None
    known = ", ".join(f".{one}" for one in (*FILE_FORMATS, *_SAME))
    what = f"the format {quoted(name)}" if asked else f"the extension of {quoted(str(source), 200)}"
    raise UsageError(f"{what} is not known; prompt files are {known}")
