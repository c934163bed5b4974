"""The format of a prompt file, told by how its content begins; the file's name only decides what content leaves open.

{"prompt": ...}     a line that is an object           jsonl
{                   an object over several lines       json
[{, ["              an array                           json
prompt,seed         names of fields, separated         csv
- prompt: ...       (only a file named .yaml)          yaml
a red circle        anything else                      by the name; without one, txt
"""

import json
import re

from omni_cli.prompts.byte_stream import BLANK, ByteStream
from omni_cli.prompts.json_values import begins_with_list
from omni_cli.prompts.table import names_fields

PARQUET = "parquet"

_TABLES = ("csv", "tsv")

_ARRAY = re.compile(rb'\[\s*+(?:[\[{"\]]|$)')
_OBJECT = re.compile(rb"""\{\s*+(?:["'}]|$)""")


def format_by_content(stream: ByteStream, named: str | None) -> str:
    """Return the format of `stream`, whose name says that it is `named`, None for a pipe."""
    if named == "yaml":
        return "yaml"
    first, is_json = stream.first(), named in ("jsonl", "json")
    if first == b"[" and named != "jsonl" and (is_json or _ARRAY.match(stream.inspected().lstrip(BLANK))):
        return "json"
    line = stream.first_lines(1)[0]
    if first == b"[" and named == "jsonl":
        return "jsonl" if _is_value(line) and len(stream.first_lines(2)) > 1 else "json"
    if first == b"{" and (is_json or _OBJECT.match(line)):
        return "json" if _is_several_lines(stream, line) else "jsonl"
    if named not in _TABLES and names_fields(line.decode("utf-8", "replace")):
        return "csv"
    return named or "txt"


def _is_several_lines(stream: ByteStream, line: bytes) -> bool:
    """Return True if an object begins with `line` and goes on in the next, or holds a list of requests.

    Each line of a JSONL file begins with {, also the one below a line that is cut off.
    """
    if begins_with_list(line):
        return True
    if _is_value(line) or _depth(line) <= 0:
        return False
    below = stream.first_lines(2)[1:]
    return line.endswith((b"{", b"[")) or any(not next_line.startswith(b"{") for next_line in below)


def _is_value(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _depth(line: bytes) -> int:
    bare = _TEXT.sub(b"", line)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")


_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?')
