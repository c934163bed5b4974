"""Prompt files: every way to write down requests, read as a stream of checked requests and located problems.

    bytes ── source ──> rows (text with its place) ── parse ──> members ── fields, nested ──> GenerationRequest
                 jsonl · array · table · plain · parquet          └────────── every fault ──> Problem(line, column)

Each format only cuts the stream into rows and says how a row's text falls into named members; one judge (`row`) checks the
members of all of them. The text of a row is kept, so that a later check can ask where a field stands.
"""

from omni_cli.prompts.fields import ALIASES, FIELDS
from omni_cli.prompts.reader import FILE_FORMATS, read
from omni_cli.prompts.row import Located
from omni_cli.prompts.rules import FORMATS

__all__ = ["ALIASES", "FIELDS", "FILE_FORMATS", "FORMATS", "Located", "read"]
