"""Parquet, through the optional pyarrow: a column is a field, a row is a request."""

from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from omni_cli.errors import Problem, UsageError
from omni_cli.prompts.check import Parsed
from omni_cli.prompts.nodes import Member, Node, Odd, Value
from omni_cli.prompts.row import Located, Row, judge
from omni_cli.request import GenerationRequest

BATCH_ROWS = 256


def read_parquet(source: str | Path, name: str, defaults: GenerationRequest) -> Iterator[Located | Problem]:
    """The requests of a parquet file. As it has no lines, `line` is the number of the row and `column` that of its column.

    Raises UsageError if pyarrow is not installed or the file is not parquet.
    """
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageError(f"cannot read {name}: parquet files need pyarrow; pip install pyarrow") from error
    try:
        with parquet.ParquetFile(source) as file:
            rows = (row for batch in file.iter_batches(BATCH_ROWS) for row in batch.to_pylist())
            for index, row in enumerate(rows):
                yield from judge(Row(name, index + 1, 1, b"", partial(_parse, row)), index, defaults)
    except (OSError, ValueError) as error:  # pyarrow's own errors derive from these
        raise UsageError(f"cannot read {name}: {error}") from error


def _parse(row: Mapping[str, object], _text: str) -> Parsed:
    return Parsed([Member(key, at, Node(at, _value(at, value))) for at, (key, value) in enumerate(row.items())])


def _value(at: int, value: object) -> Value:
    """A Python value as a scanned one; a struct's members that are null were not said."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [Node(at, _value(at, item)) for item in value]
        case dict():
            said = {key: item for key, item in value.items() if item is not None}
            return tuple(Member(str(key), at, Node(at, _value(at, item))) for key, item in said.items())
        case _:
            return Odd(type(value).__name__, "is not text, a number, a list or a struct")
