"""Reading a prompt file of any format."""

from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec

from omni_cli.errors import Diagnostic, UsageError
from omni_cli.prompts.byte_stream import STDIN, ByteStream, display_name, is_pipe, open_stream
from omni_cli.prompts.columns import Columns
from omni_cli.prompts.content_format import PARQUET, format_by_content
from omni_cli.prompts.jsonl import read_lines, read_values
from omni_cli.prompts.parquet import read_parquet
from omni_cli.prompts.plain_text import read_plain
from omni_cli.prompts.row import NO_DEFAULTS, Rows
from omni_cli.prompts.table import read_csv, read_tsv
from omni_cli.request import GenerationRequest
from omni_cli.text import quote


def _read_yaml(stream: ByteStream, defaults: GenerationRequest, columns: Columns) -> Rows:
    """Read the requests of a YAML file."""
    from omni_cli.prompts.yaml_list import read_yaml  # imports yaml, which few prompt files need

    return read_yaml(stream, defaults, columns)


STREAMED: Mapping[str, Callable[[ByteStream, GenerationRequest, Columns], Rows]] = {
    "jsonl": read_lines,
    "json": read_values,
    "csv": read_csv,
    "tsv": read_tsv,
    "txt": read_plain,
    "yaml": _read_yaml,
}

FILE_FORMATS = (*STREAMED, PARQUET)
"""Names of the formats that `read` accepts; each is also the extension of its files."""

_SYNONYMS = {"ndjson": "jsonl", "yml": "yaml"}

_SPREADSHEETS = ("xlsx", "xls", "ods", "numbers")


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a prompt file is read: None means as its name and content say."""

    format: str | None = None
    encoding: str | None = None
    columns: Columns = Columns()


AS_IT_IS = ReadOptions()


def read(
    source: str | Path,
    *,
    binary: BinaryIO | None = None,
    options: ReadOptions = AS_IT_IS,
    defaults: GenerationRequest = NO_DEFAULTS,
) -> Rows:
    """Read the requests of `source`, lazily and in file order; "-" is the process's standard input.

    `binary` is read instead, if given: the bytes of `source` that the caller has opened.

    Every row gives one LocatedRequest, or a Diagnostic for each of its mistakes. No content raises, and reading goes on
    after a mistake. The format is `options.format`, else that of the content and the extension. `defaults` are the
    values of flags: an input among them makes up for a row without one.

    Raises UsageError at once if the source cannot be read or its format is unknown, and later if reading fails.
    """
    is_opened_file = binary is not None and source != STDIN
    named = _format_of(source, options.format, pipe=not is_opened_file and is_pipe(source))
    return _at_least_one(_rows(source, binary, named, options, defaults), display_name(source))


def _at_least_one(rows: Rows, source: str) -> Rows:
    """Yield `rows`, or the mistake that there is none."""
    first = next(rows, None)
    if first is None:
        yield Diagnostic("no requests", "give at least one", source=source, line=1, column=1)
    else:
        yield from chain((first,), rows)


def _rows(
    source: str | Path,
    binary: BinaryIO | None,
    named: str | None,
    options: ReadOptions,
    defaults: GenerationRequest,
) -> Rows:
    if named == PARQUET:
        yield from read_parquet(binary or source, display_name(source), defaults, options.columns)
        return
    with open_stream(source, binary, options.encoding) as stream:
        chosen = named if options.format is not None and named else format_by_content(stream, named)
        yield from STREAMED[chosen](stream, defaults, options.columns)


def _format_of(source: str | Path, asked: str | None, *, pipe: bool) -> str | None:
    """Return the format of `source`, None if only its content can tell. Raises UsageError for an unknown one."""
    extension = Path(source).suffix.lower().removeprefix(".")
    name = asked or ("" if pipe else extension)
    chosen = _SYNONYMS.get(name, name)
    if pipe and chosen == PARQUET:
        raise UsageError("a parquet file cannot be read from a pipe; give its path")
    if chosen in FILE_FORMATS or not chosen:
        return chosen or None
    if asked is None and chosen in _SPREADSHEETS:
        raise UsageError(f"{quote(str(source), 200)} is a spreadsheet; save it as CSV (UTF-8)")
    if asked is not None:
        raise UsageError(f"the format {quote(name)} is not known; formats are {', '.join(FILE_FORMATS)}")
    known = ", ".join(f".{extension}" for extension in (*FILE_FORMATS, *_SYNONYMS))
    what = f"the extension of {quote(str(source), 200)}"
    raise UsageError(f"{what} is not known; prompt files are {known}; --input-format says which of them it is")
