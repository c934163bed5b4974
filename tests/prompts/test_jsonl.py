import json

import pytest
from msgspec.structs import replace

from omni_cli.prompts import Located
from omni_cli.request import Adapter, GenerationRequest

TEN_MISTAKES = """\
{"promt": "a cat", "seed": "12", "steps": 30, "num_inference_steps": 30, "fps": NaN}

{"prompt": "a 😀 cat", "seed": -1, "seed": 2, "width": 1e999, "strength": 1.5,}
{"prompt": "  ", "lora": ["a", {"path": "b", "wieght": 1}]}
"""


def test_ten_mistakes_give_ten_problems_with_line_and_column(faults):
    seed = "give a whole number from 0 to 9223372036854775807"
    assert faults(TEN_MISTAKES) == [
        '1:2: unknown field "promt"; did you mean "prompt"?',
        f'1:28: seed: "12" is text; {seed}',
        '1:47: num_inference_steps: is given as "steps" and as "num_inference_steps"; keep one',
        "1:81: fps: NaN is not a finite number; give a number above 0 up to 1000",
        f"3:31: seed: -1 is out of range; {seed}",
        "3:35: seed: is given twice; keep one",
        "3:55: width: 1e999 is too large; give a whole number from 1 to 16384",
        "3:74: strength: 1.5 is out of range; give a number from 0 to 1",
        "3:77: trailing comma before }; remove it",
        "4:12: prompt: is empty; give a prompt, or an image or a video to start from",
        '4:46: lora[1]: unknown field "wieght"; known: path, weight',
    ]


def test_sound_rows_around_a_faulty_one_are_read_and_counted(rows):
    first, fault, last = rows('{"prompt": "a"}\r\n{"prompt": 1}\r\n\r\n{"prompt": "b"}')
    assert (first.request.prompt, first.index, first.line, first.source) == ("a", 0, 1, "<stdin>")
    assert (fault.line, fault.column, fault.field) == (2, 12, "prompt")
    assert (last.request.prompt, last.index, last.line) == ("b", 2, 4)


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ({"steps": 5}, {"num_inference_steps": 5}),
        ({"cfg_scale": 5}, {"guidance_scale": 5.0}),
        ({"n": 2}, {"num_outputs": 2}),
        ({"num_images_per_prompt": 2}, {"num_outputs": 2}),
        ({"num_videos_per_prompt": 2}, {"num_outputs": 2}),
        ({"size": "832x480"}, {"width": 832, "height": 480}),
        ({"size": "auto"}, {}),
        ({"custom_id": "x"}, {"id": "x"}),
        ({"request_id": "x"}, {"id": "x"}),
        ({"id": 17}, {"id": "17"}),
        ({"image_path": "a.png"}, {"image": "a.png"}),
        ({"lora": "a.safetensors"}, {"lora": [Adapter(path="a.safetensors")]}),
        ({"lora": {"path": "a", "weight": 0.5}}, {"lora": [Adapter(path="a", weight=0.5)]}),
        ({"lora": ["a", {"path": "b"}]}, {"lora": [Adapter(path="a"), Adapter(path="b")]}),
        ({"lora": []}, {"lora": []}),
        ({"image": ["a.png", "b.png"]}, {"image": ["a.png", "b.png"]}),
        (
            {"extra": {"eta": 0.5, "nested": {"prompt": [None, True]}}},
            {"extra": {"eta": 0.5, "nested": {"prompt": [None, True]}}},
        ),
        ({"num_frames": 17.0, "seed": None}, {"num_frames": 17}),
        ({"format": "PNG"}, {"format": "png"}),
        ({"output": "clips/a.mp4"}, {"output": "clips/a.mp4"}),
    ],
)
def test_what_people_write_becomes_our_fields(requests, row, wanted):
    assert requests(json.dumps({"prompt": "p", **row})) == [GenerationRequest(prompt="p", **wanted)]


@pytest.mark.parametrize(
    ("member", "fault"),
    [
        ('"seed": 9223372036854775808', "9223372036854775808 is out of range"),
        ('"seed": 1.5', "1.5 is not whole"),
        ('"seed": true', "true is a boolean"),
        (f'"seed": {"9" * 5000}', "9" * 60 + "… is too large"),
        ('"height": 0', "0 is out of range"),
        ('"width": 16385', "16385 is out of range"),
        ('"num_frames": 0', "0 is out of range"),
        ('"num_inference_steps": 10001', "10001 is out of range"),
        ('"num_outputs": 1001', "1001 is out of range"),
        ('"fps": 0', "0 is out of range"),
        ('"fps": 1000.5', "1000.5 is out of range"),
        ('"guidance_scale": -Infinity', "-Infinity is not a finite number"),
        ('"guidance_scale_2": "7"', '"7" is text'),
        ('"true_cfg_scale": [1]', "this is a list"),
        ('"strength": -0.1', "-0.1 is out of range"),
        ('"strength": None', "None is not a JSON value"),
        ('"seed": 007', "007 is not a JSON value"),
        ('"negative_prompt": {"a": 1}', "this is an object"),
        ('"negative_prompt": "a\\u0000b"', "holds a NUL character"),
        ('"negative_prompt": "a\\ud800b"', "holds the lone surrogate \\ud800"),
        ('"id": ""', "is empty"),
        ('"id": true', "true is a boolean"),
        (f'"id": "{"x" * 513}"', "has 513 characters"),
        ('"id": "a\\u001b[2Jb"', "holds the control character \\x1b"),
        ('"output": "../a.png"', '"../a.png" leaves the output folder'),
        ('"output": "/a.png"', '"/a.png" leaves the output folder'),
        ('"output": "."', '"." leaves the output folder'),
        ('"output": "C:a.png"', '"C:a.png" has a drive or a backslash'),
        ('"output": "a\\\\b.png"', '"a\\\\b.png" has a drive or a backslash'),
        ('"output": "a\\nb.png"', "holds the control character \\n"),
        ('"format": "bmp"', '"bmp" is no known format'),
        ('"image": []', "is an empty list"),
        ('"image": ""', "is empty"),
        ('"video": ["a.mp4"]', "this is a list"),
        ('"size": "5by4"', '"5by4" is no size'),
        ('"size": "0x64"', "0 is out of range"),
        ('"lora": 5', "5 is a number"),
        ('"lora": {"weight": 1}', "has no path"),
        ('"extra": []', "this is a list"),
    ],
)
def test_a_value_that_its_field_cannot_take_is_one_problem(rows, member, fault):
    (problem,) = rows(f'{{"prompt": "p", {member}}}')
    assert (problem.message, problem.line, problem.column) == (fault, 1, member.index(" ") + 18)
    assert problem.allowed
    assert problem.field == member.split('"')[1]


def test_items_of_lists_and_objects_are_located_on_their_own(faults):
    row = '{"image": ["a", ""], "lora": [{"path": "b", "weight": "1"}], "extra": {"x": [1, 1e999], "x": 2, "seed": 1, "a b": 1, "n": 18446744073709551616}}'
    assert faults(row) == [
        "1:17: image[1]: is empty; give the path of a file",
        '1:55: lora[0].weight: "1" is text; give a finite number',
        "1:81: extra.x[1]: 1e999 is too large; give text, a finite number, true, false, null, a list or an object",
        '1:89: extra: "x" is given twice; keep one',
        '1:97: extra: "seed" is a field of the request; say it beside extra',
        '1:108: extra: "a b" is no keyword; use letters, digits and _',
        "1:123: extra.n: 18446744073709551616 is too large; a whole number must fit 64 bits",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
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
            "1:16: more text after the end of the request; write one request a line, or separate them with commas in [ ]",
        ),
        ('{"prompt": "x" "seed": 1}', "1:16: missing comma before this; separate entries with commas"),
        ('{"prompt": "a\tb"}', '1:14: raw control character "\\t" in text; write it as an escape, such as \\n or \\t'),
        ('{"prompt": "C:\\x"}', '1:15: unknown escape "\\\\x" in text; write a backslash as \\\\'),
        ('{"prompt": "x", "extra": ' + "[" * 5000, "1:89: nested deeper than 64 levels"),
        ('{"prompt": "x", "extra": {"a": [1, 2,]}}', "1:37: trailing comma before ]; remove it"),
        ('{"prompt": \0}', "1:12: prompt: \\x00 is not a JSON value; give text in double quotes"),
    ],
)
def test_broken_json_is_located(faults, text, fault):
    assert faults(text)[0].startswith(fault)
    assert len(faults(text)) == 1


def test_members_before_the_break_are_judged_too(faults):
    assert faults('{"seed": -1, "promt": 1, "prompt": "x')[:2] == [
        "1:10: seed: -1 is out of range; give a whole number from 0 to 9223372036854775807",
        '1:14: unknown field "promt"; did you mean "prompt"?',
    ]


@pytest.mark.parametrize("row", ["5", '"a cat"', "null", "[1]"])
def test_a_row_that_is_no_object_is_one_problem(rows, row):
    (problem,) = rows(row, "jsonl")
    assert problem.message.startswith("a request is an object, and ")
    assert problem.column == 1


def test_invalid_utf8_is_named_by_byte_and_placed_by_character(faults):
    assert faults('{"prompt": "é'.encode() + b'\xff", "seed": -1}') == [
        "1:14: byte 0xff at byte 15 of the row is not UTF-8; save the file as UTF-8",
        "1:26: seed: -1 is out of range; give a whole number from 0 to 9223372036854775807",
    ]


def test_a_prompt_of_ten_megabytes_is_read(requests):
    prompt = 'x"\n' * 1_000_000
    assert requests(json.dumps({"prompt": prompt, "steps": 3}))[0].prompt == prompt


def test_a_row_too_long_to_keep_is_a_problem_and_the_next_is_read(rows):
    fault, row = rows(b'{"prompt": "' + b"x" * (64 << 20) + b'"}\n{"prompt": "b"}')
    assert (fault.line, fault.message) == (1, "longer than 64 MiB")
    assert (row.request.prompt, row.index, row.line) == ("b", 1, 2)


def test_a_row_of_endless_faults_is_cut_short(rows):
    row = "{" + ",".join(f'"k{i}": 1' for i in range(5000)) + "}"
    found = rows(row)
    assert len(found) == 101
    assert found[-1].message == "more than 100 problems in this row"


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
    assert isinstance(found, Located) is sound
    assert sound or found.field == "prompt"


OPENAI = {"custom_id": "r-1", "method": "POST", "url": "/v1/images/generations"}


def test_an_openai_batch_row_is_read_through_its_body(rows):
    body = {"model": "gpt-image-1", "prompt": "a cat", "n": 2, "size": "1024x768", "user": "u", "seed": 3}
    (row,) = rows(json.dumps({**OPENAI, "body": body}))
    assert row.request == GenerationRequest(id="r-1", prompt="a cat", num_outputs=2, width=1024, height=768, seed=3)
    assert row.at("id") == (1, 15)
    assert row.at("width") == row.at("height") == (1, 141)


def test_faults_of_an_openai_batch_row_are_located_inside_it(faults):
    row = '{"custom_id": "a", "method": "GET", "url": "/v1/chat/completions", "body": {"promt": "x", "id": "b"}, "sede": 1}'
    assert faults(row) == [
        '1:30: method: "GET" is text; give "POST"',
        '1:44: url: "/v1/chat/completions" makes no images or videos; give "/v1/images/generations" or "/v1/videos"',
        '1:77: unknown field "promt"; did you mean "prompt"?',
        '1:91: id: is given as "custom_id" and as "id"; keep one',
        '1:103: unknown field "sede"; did you mean "seed"?',
    ]
    assert faults('{"custom_id": "a", "body": "x"}') == [
        '1:28: body: "x" is text; give an object, such as {"prompt": "..."}'
    ]


def test_a_later_check_can_place_its_problem(rows):
    row = rows('\n{"custom_id": "a", "prompt": "é", "size": "10x20", "steps": 4}')[0]
    assert row.at("id") == (2, 15)
    assert row.at("prompt") == (2, 30)
    assert row.at("height") == row.at("size") == (2, 43)
    assert row.at("num_inference_steps") == (2, 61)
    assert row.at("seed") == (2, 1)
    assert str(row.problem("height", "10 is no multiple of 16", "use 16")) == (
        "<stdin>:2:43: height: 10 is no multiple of 16; use 16"
    )
    assert replace(row, source="a.jsonl").problem("seed", "x").source == "a.jsonl"
