"""Requests of a program keep the rules of rows of a file; diagnostics name the request by its number."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from omni_cli.errors import Diagnostic
from omni_cli.prompts import LocatedRequest, validate_fields, validate_object
from omni_cli.prompts.row import NO_DEFAULTS
from omni_cli.request import Adapter, GenerationRequest

FULL = GenerationRequest(
    id="a", prompt="é", seed=3, image=["a.png"], lora=[Adapter(path="l", weight=2.0)], extra={"eta": [0.5, {"b": None}]}
)


def problems(request) -> list[str]:
    return [str(row) for row in validate_object(request, 2, NO_DEFAULTS) if isinstance(row, Diagnostic)]


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ("a cat", GenerationRequest(prompt="a cat")),
        ({"prompt": "a", "n": 5, "size": "8x16"}, GenerationRequest(prompt="a", num_outputs=5, width=8, height=16)),
        ({"prompt": "a", "image": ("a.png", "b.png")}, GenerationRequest(prompt="a", image=["a.png", "b.png"])),
        ({"custom_id": "a", "url": "/v1/videos", "body": {"prompt": "b"}}, GenerationRequest(id="a", prompt="b")),
        ({"prompt": "a", "image": Path("a.png")}, GenerationRequest(prompt="a", image="a.png")),
        (
            {"prompt": "a", "seed": np.int64(5), "height": np.uint8(64), "strength": np.float32(0.5)},
            GenerationRequest(prompt="a", seed=5, height=64, strength=0.5),
        ),
        (FULL, FULL),
    ],
)  # fmt: skip
def test_a_text_a_mapping_and_a_request_become_the_request(request_, wanted):
    (row,) = validate_object(request_, 2, NO_DEFAULTS)
    assert isinstance(row, LocatedRequest)
    assert (row.request, row.index, row.line, row.source) == (wanted, 2, 0, "requests[2]")
    assert str(row.problem("seed", "is odd", "give an even one")) == "requests[2]: seed: is odd; give an even one"


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({"prompt": 5}, "prompt: expected text in double quotes, got 5"),
        ({"prompt": "a\ud800"}, r"prompt: holds the lone surrogate \ud800; remove it"),
        ({"prompt": "a", "promt": 1}, 'unknown field "promt"; did you mean "prompt"?'),
        ({"prompt": "a", "fps": float("nan")}, "fps: nan is not a finite number; give a number above 0"),
        ({"prompt": "a", "seed": 10**5000}, "seed: this number is too large; give a whole number from 0"),
        ({"prompt": "a", "extra": {"x": {1, 2}}}, "extra.x: set is no text, number, path, list or object"),
        ({"seed": 1}, "prompt: is missing; give a prompt, or an image or a video"),
    ],
)
def test_a_wrong_value_is_one_diagnostic_without_a_line(values: Mapping[str, object], wanted: str):
    (problem,) = problems(values)
    assert problem.startswith(f"requests[2]: {wanted}")


def test_an_object_that_contains_itself_is_a_mistake_and_not_a_recursion_error():
    endless: dict[str, object] = {}
    endless["x"] = endless
    assert "nested deeper than 64 levels" in problems({"prompt": "a", "extra": endless})[0]


def test_fields_alone_need_no_prompt_and_give_all_their_mistakes():
    assert validate_fields({"seed": 3.0, "format": "PNG"}) == GenerationRequest(seed=3, format="png")
    assert validate_fields({}) == GenerationRequest()
    found = validate_fields({"height": 0, "fps": float("inf")})
    assert isinstance(found, list)
    assert [(one.field, one.line) for one in found] == [("height", 0), ("fps", 0)]


@pytest.mark.parametrize("request_", [5, None, ["a"], object(), b"a"])
def test_what_is_no_request_is_named_by_its_type(request_: object) -> None:
    (problem,) = problems(request_)
    assert problem.startswith("requests[2]: expected a prompt, a mapping of fields or a GenerationRequest, got ")
