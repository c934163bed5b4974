"""Every mistake of a row is reported, in the order of its place, and a row needs an input."""

import json

import pytest

from omni_cli.prompts import LocatedRequest

TEN_MISTAKES = """\
{"promt": "a cat", "seed": "12", "steps": 30, "num_inference_steps": 30, "fps": NaN}

{"prompt": "a 😀 cat", "seed": -1, "seed": 2, "width": 1e999, "strength": 1.5,}
{"prompt": "  ", "lora": ["a", {"path": "b", "wieght": 1}]}
"""


def test_every_mistake_of_a_file_is_reported_with_line_and_column(problems):
    seed = "a whole number from 0 to 9223372036854775807"
    assert problems(TEN_MISTAKES) == [
        '1:2: unknown field "promt"; did you mean "prompt"?',
        f'1:28: seed: expected {seed}, got "12"',
        '1:47: num_inference_steps: is given as "steps" and as "num_inference_steps"; keep one',
        "1:81: fps: NaN is not a finite number; give a number above 0 up to 1000",
        f"3:31: seed: expected {seed}, got -1",
        "3:35: seed: is given twice; keep one",
        "3:55: width: 1e999 is too large; give a whole number from 1 to 16384",
        "3:74: strength: expected a number from 0 to 1, got 1.5",
        "3:77: trailing comma before }; remove it",
        "4:12: prompt: is empty; give a prompt, or an image or a video to start from",
        '4:46: lora[1]: unknown field "wieght"; known: path, weight',
    ]


def test_a_row_of_endless_mistakes_reports_the_first_hundred(rows):
    row = "{" + ",".join(f'"k{i}": 1' for i in range(5000)) + "}"
    found = rows(row)
    assert len(found) == 101
    assert found[-1].cause == "more than 100 problems in this row"


@pytest.mark.parametrize(
    ("row", "sound"),
    [
        ({}, False),
        ({"prompt": None}, False),
        ({"prompt": ""}, False),
        ({"mask": "m.png"}, False),
        ({"image": "a.png"}, True),
        ({"prompt": "", "image": "a.png"}, True),
        ({"last_image": "a.png"}, True),
        ({"video": "a.mp4"}, True),
        ({"extra": {"class_labels": [1]}}, True),
        ({"extra": {}}, False),
    ],
)
def test_a_row_needs_something_to_generate_from(rows, row, sound):
    (found,) = rows(json.dumps(row))
    assert isinstance(found, LocatedRequest) is sound
    assert sound or found.field == "prompt"
