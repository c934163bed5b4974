"""The JSON Schema of prompt files, for editors: their names, types and ranges are those of the fields and their rules.

The reader takes more than the schema (manifests of other engines, formats in capitals, columns that --extra-columns
keeps) and checks more (characters in texts, what files and models decide).
"""

from collections.abc import Mapping
from typing import Any

from omni_cli.prompts import rules
from omni_cli.prompts.fields import ALIASES, EXTRA, FIELDS, META, RULES, SIZE
from omni_cli.prompts.openai_batch import ENVELOPE
from omni_cli.request import EXACT_INTEGERS, MAX_SEED

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

LARGE_SEED: Schema = {"type": "string", "pattern": "^[0-9]{16,19}$"}
"""A seed above EXACT_INTEGERS as text, which may be a few digits too large for the reader."""

DESCRIPTIONS: Mapping[str, str] = {
    "id": "Name of the row in the manifest and of its file.",
    "model": "A model other than --model: a folder, a hub id, a .safetensors file, or demo.",
    "prompt": "What to render.",
    "seed": "Seed of the first output; further outputs use the next ones.",
    "lora": "Adapters: a path, or objects of path and weight.",
    "extra": "Any other keyword of the pipeline's call.",
    "output": "File name inside the output folder.",
    "quality": "Quality of a JPEG, WebP or AVIF file; wins over --quality.",
    "meta": "Kept in the row; changes nothing else.",
    "prompt_weighting": "Syntax of weights in the prompt: a1111 for (red:1.3).",
    SIZE: "Width and height in pixels, or auto.",
}
"""Texts for fields that are no flags, or whose flags say something else."""

_PATH: Schema = {"type": "string", "minLength": 1}

_ADAPTER: Schema = {
    "type": "object",
    "properties": {"path": _PATH, "weight": {"type": "number"}},
    "required": ["path"],
    "additionalProperties": False,
}

_SPECIAL: Mapping[str, Schema] = {
    "id": {"anyOf": [{"type": "string", "minLength": 1, "maxLength": rules.MAX_ID}, {"type": "integer"}]},
    "seed": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": MAX_SEED}, LARGE_SEED]},
    "image": {"anyOf": [_PATH, {"type": "array", "items": _PATH, "minItems": 1}]},
    "lora": {"anyOf": [_PATH, _ADAPTER, {"type": "array", "items": {"anyOf": [_PATH, _ADAPTER]}}]},
    "format": {"enum": list(rules.FORMATS)},
    "prompt_weighting": {"enum": [rules.A1111]},
    EXTRA: {
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "not": {"enum": list(FIELDS)}},
    },
    META: {"type": "object"},
    SIZE: {"type": "string", "pattern": "^(auto|[1-9][0-9]{0,3} *[x×*] *[1-9][0-9]{0,3})$"},
    "prompt": {"type": "string"},
    "negative_prompt": {"type": "string"},
}
"""Schemas of fields that hold no plain number and no path."""


def prompt_file_schema(descriptions: Mapping[str, str]) -> Schema:
    """Return the schema of a prompt file: a row, or a list of rows. `descriptions` are texts by field."""
    texts = {**descriptions, **DESCRIPTIONS}
    row: Schema = {"anyOf": [{"$ref": "#/$defs/request"}, {"type": "string"}, {"$ref": "#/$defs/batch_row"}]}
    return {
        "$schema": DIALECT,
        "title": "Prompts for omni-gen",
        "anyOf": [{"$ref": "#/$defs/row"}, {"type": "array", "items": {"$ref": "#/$defs/row"}}],
        "$defs": {"row": row, "request": _request_schema(texts), "batch_row": _batch_row_schema()},
    }


def _request_schema(texts: Mapping[str, str]) -> Schema:
    properties = {field: {"description": texts.get(field, ""), **_field_schema(field)} for field in (*FIELDS, SIZE)}
    aliases = {alias: {**properties[field], "description": f"Same as {field}."} for alias, field in ALIASES.items()}
    return {"type": "object", "properties": {**properties, **aliases}, "additionalProperties": False}


def _field_schema(field: str) -> Schema:
    """Return the schema of the values of `field`; null leaves a field out."""
    if field in _SPECIAL:
        schema = dict(_SPECIAL[field])
    else:
        rule = RULES[field]
        schema = rule.schema() if isinstance(rule, rules.NumberRule) else dict(_PATH)
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    if "anyOf" in schema:
        return {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


def _batch_row_schema() -> Schema:
    """Return the schema of a row of an OpenAI batch file, whose body is the service's to describe."""
    custom_id, method, url, body = ENVELOPE
    properties: Schema = {
        custom_id: {"type": "string"},
        method: {"const": "POST"},
        url: {"enum": ["/v1/images/generations", "/v1/images/edits", "/v1/videos"]},
        body: {"type": "object"},
    }
    return {"type": "object", "properties": properties, "required": [url, body], "additionalProperties": False}


def with_exact_seed_texts(schema: Any) -> Any:
    """Return a schema of rows or events in which seeds may be text, as they are written above EXACT_INTEGERS."""
    if isinstance(schema, list):
        return [with_exact_seed_texts(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: with_exact_seed_texts(value) for key, value in schema.items()}
    if isinstance(properties := changed.get("properties"), dict):
        for name in ("seed", "seeds"):
            if name in properties:
                properties[name] = _seed_or_text(properties[name])
    return changed


def _seed_or_text(schema: Schema) -> Schema:
    if "items" in schema:
        return {**schema, "items": _seed_or_text(schema["items"])}
    return {"anyOf": [schema, LARGE_SEED], "$comment": f"text above {EXACT_INTEGERS}: many programs round such numbers"}
