"""Flags that stand in for fields of requests: judged by the same rules as the fields of a file."""

import io
from typing import Any

import msgspec

from omni_cli.errors import Problem, UsageError
from omni_cli.prompts import read
from omni_cli.request import GenerationRequest


def checked_defaults(**values: Any) -> GenerationRequest:
    """The flags that were given, as a request. Raises UsageError with every flag that is wrong."""
    given = {name: value for name, value in values.items() if value is not None}
    # A prompt is filled in because a row needs one; the flags do not.
    line = msgspec.json.encode({"prompt": "-", **given})
    problems: list[str] = []
    for row in read("-", stdin=io.BytesIO(line), format="jsonl"):
        if not isinstance(row, Problem):
            return msgspec.structs.replace(row.request, prompt=None)
        allowed = f"; {row.allowed}" if row.allowed else ""
        problems.append(f"--{row.field.replace('_', '-')}: {row.message}{allowed}")
    raise UsageError("\n".join(problems))
