"""Prompt files: all formats, read as a stream of validated requests and located mistakes.

    bytes ── split ──> rows (bytes with a place) ── parse ──> named values ── validate ──> GenerationRequest
             jsonl · json_array · table · plain_text · parquet · objects         └───────> Diagnostic(line, column)

A format only splits the stream into rows and a row into named values. All rows are validated in one place (`row`,
`validate`), by one rule per field (`fields`). Rows keep their text, so that a later check can locate a field.
"""

from omni_cli.prompts.fields import ALIASES, FIELDS
from omni_cli.prompts.objects import validate_fields, validate_object
from omni_cli.prompts.reader import FILE_FORMATS, read
from omni_cli.prompts.row import LocatedRequest, Rows
from omni_cli.prompts.rules import FORMATS

__all__ = [
    "ALIASES",
    "FIELDS",
    "FILE_FORMATS",
    "FORMATS",
    "LocatedRequest",
    "Rows",
    "read",
    "validate_fields",
    "validate_object",
]
