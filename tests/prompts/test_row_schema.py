"""The JSON Schema of prompt files: it accepts what the reader accepts, and refuses what the reader refuses."""

import io
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from omni_cli.prompts.fields import ALIASES, FIELDS, RULES
from omni_cli.prompts.reader import ReadOptions, read
from omni_cli.prompts.row import LocatedRequest
from omni_cli.prompts.row_schema import prompt_file_schema
from omni_cli.prompts.rules import NumberRule, WholeNumberRule
from omni_cli.request import MAX_SEED, GenerationRequest
from tests.prompts.test_properties import valid_requests

SCHEMA = prompt_file_schema({})
VALIDATOR = Draft202012Validator(SCHEMA)
NUMBER_FIELDS = {field: rule for field, rule in RULES.items() if isinstance(rule, NumberRule)}


def is_read(row: Any) -> bool:
    content = io.BytesIO(json.dumps(row).encode())
    (first, *_) = read("-", binary=content, options=ReadOptions(format="jsonl"))
    return isinstance(first, LocatedRequest)


def test_it_is_a_schema_with_every_name() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["$defs"]["request"]["properties"]) == {*FIELDS, *ALIASES, "size"}


@settings(max_examples=40)
@given(valid_requests)
def test_every_request_that_is_read_is_valid(request: GenerationRequest) -> None:
    row = msgspec.json.decode(msgspec.json.encode(request))
    assert VALIDATOR.is_valid(row)
    assert VALIDATOR.is_valid([row, "a prompt"])


@pytest.mark.parametrize("field", NUMBER_FIELDS)
def test_ranges_of_numbers_are_those_of_the_rules(field: str) -> None:
    rule = NUMBER_FIELDS[field]
    step = 1 if isinstance(rule, WholeNumberRule) else 0.5
    bounds = [value for bound in (rule.low, rule.high) for value in (bound - step, bound, bound + step)]
    values = [*(value for value in bounds if abs(value) < 1e300), 1.5, True, "1", None, [], {}]
    told = {json.dumps(value): VALIDATOR.is_valid({"prompt": "x", field: value}) for value in values}
    assert told == {json.dumps(value): is_read({"prompt": "x", field: value}) for value in values}


@pytest.mark.parametrize(
    ("row", "valid"),
    [
        ("a prompt", True),
        ({"prompt": "x", "seed": MAX_SEED}, True),
        ({"prompt": "x", "seed": str(MAX_SEED)}, True),
        ({"prompt": "x", "seed": -1}, False),
        ({"prompt": "x", "seed": "12"}, False),
        ({"prompt": "x", "size": "832x480"}, True),
        ({"prompt": "x", "size": "auto"}, True),
        ({"prompt": "x", "size": "big"}, False),
        ({"prompt": "x", "steps": 0}, False),
        ({"prompt": "x", "n": 2, "cfg_scale": 3}, True),
        ({"prompt": "x", "lora": [{"path": "a.safetensors", "weight": 0.5}, "b"]}, True),
        ({"prompt": "x", "lora": {"weight": 1}}, False),
        ({"prompt": "x", "image": []}, False),
        ({"prompt": "x", "format": "bmp"}, False),
        ({"prompt": "x", "extra": {"eta": 0.5}}, True),
        ({"prompt": "x", "extra": {"seed": 5}}, False),
        ({"prompt": "x", "extra": {"two words": 5}}, False),
        ({"prompt": "x", "meta": 5}, False),
        ({"prompt": 5}, False),
        ({"promt": "x"}, False),
        ({"custom_id": "a", "method": "POST", "url": "/v1/videos", "body": {"prompt": "x", "seconds": "4"}}, True),
        ({"custom_id": "a", "method": "GET", "url": "/v1/videos", "body": {"prompt": "x"}}, False),
        (5, False),
    ],
)
def test_schema_and_reader_agree(row: Any, valid: bool) -> None:
    assert VALIDATOR.is_valid(row) == valid == is_read(row)
