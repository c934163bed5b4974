"""Parquet, through the optional pyarrow: a column is a field, a row is a request."""

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from omni_cli.errors import UsageError
from omni_cli.prompts.columns import Columns
from omni_cli.prompts.objects import to_node
from omni_cli.prompts.row import Row, Rows
from omni_cli.prompts.scan import Member, Node, Parsed
from omni_cli.request import GenerationRequest

BATCH_ROWS = 256


def read_parquet(source: str | Path | BinaryIO, name: str, defaults: GenerationRequest, columns: Columns) -> Rows:
    """Read the requests of a parquet file, which has no lines: `line` is the number of the row, `column` of the column.

    Raises UsageError if pyarrow is not installed or the file is not parquet.
    """
    for index, values in enumerate(_records(source, name)):
        yield from Row(name, index + 1, 1, b"", partial(_parse, values, columns)).read(index, defaults)


def _records(source: str | Path | BinaryIO, name: str) -> Iterator[dict[str, Any]]:
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageError(f"cannot read {name}: parquet files need pyarrow; pip install pyarrow") from error
    try:
        with parquet.ParquetFile(source) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                yield from batch.to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's own errors derive from these
        raise UsageError(f"cannot read {name}: {error}") from error


def _parse(values: dict[str, Any], columns: Columns, _text: str) -> Parsed:
    members = (
        Member(columns.column_name(key), at, to_node(_without_nulls(value), at))
        for at, (key, value) in enumerate(values.items())
    )
    return columns.apply(Parsed(Node(0, tuple(members))))


def _without_nulls(value: Any) -> Any:
    """Return `value` without the null members of its structs, which stand for members that are not given."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
