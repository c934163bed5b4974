"""What each field may hold: a message says what was expected and what was found."""

import pytest


@pytest.mark.parametrize(
    ("member", "cause"),
    [
        (
            '"seed": 9223372036854775808',
            "expected a whole number from 0 to 9223372036854775807, got 9223372036854775808",
        ),
        ('"seed": 1.5', "expected a whole number from 0 to 9223372036854775807, got 1.5"),
        ('"seed": true', "expected a whole number from 0 to 9223372036854775807, got true"),
        (f'"seed": {"9" * 5000}', "9" * 60 + "… is too large"),
        ('"height": 0', "expected a whole number from 1 to 16384, got 0"),
        ('"width": 16385', "expected a whole number from 1 to 16384, got 16385"),
        ('"num_frames": 0', "expected a whole number from 1 to 100000, got 0"),
        ('"num_inference_steps": 10001', "expected a whole number from 1 to 10000, got 10001"),
        ('"num_outputs": 1001', "expected a whole number from 1 to 1000, got 1001"),
        ('"fps": 0', "expected a number above 0 up to 1000, got 0"),
        ('"fps": 1000.5', "expected a number above 0 up to 1000, got 1000.5"),
        ('"guidance_scale": -Infinity', "-Infinity is not a finite number"),
        ('"guidance_scale_2": "7"', 'expected a finite number, got "7"'),
        ('"true_cfg_scale": [1]', "expected a finite number, got a list"),
        ('"strength": -0.1', "expected a number from 0 to 1, got -0.1"),
        ('"strength": None', "None is not a JSON value"),
        ('"seed": 007', "007 is not a JSON value"),
        ('"negative_prompt": {"a": 1}', "expected text in double quotes, got an object"),
        ('"negative_prompt": "a\\u0000b"', "holds a NUL character"),
        ('"negative_prompt": "a\\ud800b"', "holds the lone surrogate \\ud800"),
        ('"id": ""', "is empty"),
        ('"id": true', "expected text in double quotes, got true"),
        (f'"id": "{"x" * 513}"', "has 513 characters"),
        ('"id": "a\\u001b[2Jb"', "holds the control character \\x1b"),
        ('"output": "../a.png"', '"../a.png" leaves the output folder'),
        ('"output": "/a.png"', '"/a.png" leaves the output folder'),
        ('"output": "."', '"." leaves the output folder'),
        ('"output": "C:a.png"', '"C:a.png" has a drive or a backslash'),
        ('"output": "a\\\\b.png"', '"a\\\\b.png" has a drive or a backslash'),
        ('"output": "a\\nb.png"', "holds the control character \\n"),
        ('"format": "bmp"', 'unknown format "bmp"'),
        ('"image": []', "is an empty list"),
        ('"image": ""', "is empty"),
        ('"video": ["a.mp4"]', "expected text in double quotes, got a list"),
        ('"size": "5by4"', 'expected "WIDTHxHEIGHT", such as "768x512", got "5by4"'),
        ('"size": "0x64"', "expected a whole number from 1 to 16384, got 0"),
        ('"lora": 5', 'expected a path or {"path": ..., "weight": ...}, got 5'),
        ('"lora": {"weight": 1}', "has no path"),
        ('"extra": []', 'expected an object, such as {"eta": 0.5}, got a list'),
    ],
)
def test_a_value_that_breaks_the_rule_of_its_field_is_one_located_problem(rows, member, cause):
    (problem,) = rows(f'{{"prompt": "p", {member}}}')
    assert (problem.cause, problem.line, problem.column) == (cause, 1, member.index(" ") + 18)
    assert problem.remedy or problem.cause.startswith("expected ")
    assert problem.field == member.split('"')[1]
