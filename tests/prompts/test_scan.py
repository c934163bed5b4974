"""Mistakes in JSON are located, and what is readable around them is read."""

import pytest


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"prompt": "x"', "1:15: the row breaks off here; put a comma or } here"),
        (
            '{"prompt": "x',
            "1:12: text without its closing double quote; the row may be cut off; write a line break in text as \\n",
        ),
        ('{"prompt" "x"}', '1:11: unexpected "\\""; put a colon after the name "prompt"'),
        ("{'prompt': 1}", "1:2: unexpected \"'\"; put the field's name here, in straight double quotes"),
        ('{"prompt": “x”}', "1:12: prompt: “x” is not a JSON value; give text in double quotes"),
        (
            '{"prompt": "x"}{"prompt": "y"}',
            "1:16: more text after the end of the request; "
            "write one request a line, or separate them with commas in [ ]",
        ),
        ('{"prompt": "x" "seed": 1}', "1:16: missing comma before this; separate entries with commas"),
        ('{"prompt": "a\tb"}', '1:14: raw control character "\\t" in text; write it as an escape, such as \\n or \\t'),
        ('{"prompt": "C:\\x"}', '1:15: unknown escape "\\\\x" in text; write a backslash as \\\\'),
        ('{"prompt": "x", "extra": ' + "[" * 5000, "1:89: nested deeper than 64 levels"),
        ('{"prompt": "x", "extra": {"a": [1, 2,]}}', "1:37: trailing comma before ]; remove it"),
        ('{"prompt": \0}', "1:12: prompt: \\x00 is not a JSON value; give text in double quotes"),
    ],
)
def test_broken_json_is_located(problems, text, problem):
    assert problems(text)[0].startswith(problem)
    assert len(problems(text)) == 1


def test_members_before_the_break_are_validated_too(problems):
    assert problems('{"seed": -1, "promt": 1, "prompt": "x')[:2] == [
        "1:10: seed: expected a whole number from 0 to 9223372036854775807, got -1",
        '1:14: unknown field "promt"; did you mean "prompt"?',
    ]
