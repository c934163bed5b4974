"""Rows keep their text: it is validated once, and later checks can locate its fields."""

import json

SAVE = "save the file as UTF-8, or name its encoding with --input-encoding"


def test_valid_rows_around_a_bad_one_are_read_and_counted(rows):
    first, problem, last = rows('{"prompt": "a"}\r\n{"prompt": 1}\r\n\r\n{"prompt": "b"}')
    assert (first.request.prompt, first.index, first.line, first.source) == ("a", 0, 1, "<stdin>")
    assert (problem.line, problem.column, problem.field) == (2, 12, "prompt")
    assert (last.request.prompt, last.index, last.line) == ("b", 2, 4)


def test_invalid_utf8_is_named_by_byte_and_placed_by_character(problems):
    assert problems('{"prompt": "é'.encode() + b'\xff", "seed": -1}') == [
        f"1:14: byte 0xff at byte 15 of the row is not UTF-8; {SAVE}",
        "1:26: seed: expected a whole number from 0 to 9223372036854775807, got -1",
    ]


def test_a_prompt_of_ten_megabytes_is_read(requests):
    prompt = 'x"\n' * 1_000_000
    assert requests(json.dumps({"prompt": prompt, "steps": 3}))[0].prompt == prompt


def test_a_row_that_is_too_long_is_a_problem_and_the_next_is_read(rows):
    problem, row = rows(b'{"prompt": "' + b"x" * (64 << 20) + b'"}\n{"prompt": "b"}')
    assert (problem.line, problem.cause) == (1, "longer than 64 MiB")
    assert (row.request.prompt, row.index, row.line) == ("b", 1, 2)


def test_a_later_check_can_locate_a_field(rows):
    row = rows('\n{"custom_id": "a", "prompt": "é", "size": "10x20", "steps": 4}')[0]
    assert row.at("id") == (2, 15)
    assert row.at("prompt") == (2, 30)
    assert row.at("height") == row.at("size") == (2, 43)
    assert row.at("num_inference_steps") == (2, 61)
    assert row.at("seed") == (2, 1)
    assert str(row.problem("height", "10 is no multiple of 16", "use 16")) == (
        "<stdin>:2:43: height: 10 is no multiple of 16; use 16"
    )
