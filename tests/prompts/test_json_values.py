"""Arrays of requests, cut into elements while they are read."""

import json

import pytest

ROWS = [{"prompt": f"a {i}", "seed": i, "extra": {"a": [1, {"b": "]},{"}]}} for i in range(5)]


@pytest.mark.parametrize("indent", [None, 0, 2])
def test_compact_and_pretty_arrays_read_alike(requests, indent):
    found = requests(json.dumps(ROWS, indent=indent))
    assert [(one.prompt, one.seed, one.extra) for one in found] == [
        (row["prompt"], row["seed"], row["extra"]) for row in ROWS
    ]


def test_places_are_those_of_the_file(rows):
    text = '\n [ {"prompt": "é"}, {"prompt": "b", "seed": -1},\n  {\n    "prompt": "c",\n    "seed": "x"\n  }]'
    first, second, third = rows(text)
    assert first.at("prompt") == (2, 15)
    assert (second.line, second.column) == (2, 45)
    assert (third.line, third.column) == (5, 13)


def test_mistakes_between_elements_are_problems_and_reading_goes_on(problems, rows):
    text = '[{"prompt": "a"},, 5,\n {"prompt": "b"} {"prompt": "c"}, {"prompt": "d"],\n {"prompt": "e"},\n]\n x'
    assert problems(text) == [
        "1:18: nothing before this comma; remove it",
        '1:20: expected an object, such as {"prompt": "..."}, got 5',
        "2:18: more text after the end of the request; write one request a line, or separate them with commas in [ ]",
        '2:49: unexpected "]"; put a comma or } here',
        "3:17: trailing comma before ]; remove it",
        "5:2: more text after the end of the array; remove it, or put all requests in one array",
    ]
    assert rows(text)[-3].request.prompt == "e"


def test_an_array_that_is_cut_off_gives_its_whole_elements_and_a_problem(rows):
    row, problem = rows('[{"prompt": "a"}')
    assert row.request.prompt == "a"
    assert (problem.line, problem.column, problem.cause) == (1, 17, "the array is not closed")


@pytest.mark.parametrize("kind", [None, "json"])
def test_objects_over_several_lines_follow_one_another(rows, problems, kind):
    first, second, problem = rows('\n{\n "prompt": "a"\n}\n{"prompt":\n "b"} {\n"prompt": 1\n}\n', kind)
    assert (first.request.prompt, first.line, first.at("prompt")) == ("a", 2, (3, 12))
    assert (second.request.prompt, second.index, second.at("prompt")) == ("b", 1, (6, 2))
    assert (problem.line, problem.column, problem.field) == (7, 11, "prompt")
    assert problems('{\n"prompt": "a"},\n{"prompt": "b"', kind) == [
        "2:15: a comma between requests; remove it, or put all requests in [ ]",
        "3:15: the row breaks off here; put a comma or } here",
    ]


@pytest.mark.parametrize(
    ("text", "prompts"),
    [
        ('["a", "b\\n"]', ["a", "b\n"]),
        ('{"prompts": ["a", "b"]}', ["a", "b"]),
        ('{"prompts":\n ["a",\n "b"]}', ["a", "b"]),
        ('{"anything": [{"prompt": "a"}, {"prompt": "b"}]}', ["a", "b"]),
        ('{"data": [{"prompt": "a"}, "b"]}', ["a", "b"]),
        ('"a"\n"b"', ["a", "b"]),
    ],
)
def test_texts_are_prompts_and_an_object_may_hold_the_list(requests, text, prompts):
    assert [one.prompt for one in requests(text, "jsonl" if text.startswith('"') else "json")] == prompts


def test_mistakes_inside_an_object_that_holds_the_list_are_placed_in_the_file(problems):
    assert problems('{"data": [\n {"prompt": 1},\n 5, {"prompt": "é", "sed": 1}]}') == [
        "2:13: prompt: expected text in double quotes, got 1",
        '3:2: expected an object, such as {"prompt": "..."}, got 5',
        '3:21: unknown field "sed"; did you mean "seed"?',
    ]


@pytest.mark.parametrize("text", ['{"image": ["a.png", "b.png"]}', '{"imag": ["a"]}', '{"prompts": "a"}', "{}"])
def test_an_object_with_another_list_is_a_request(rows, text):
    (row,) = rows(text, "json")
    assert getattr(row, "field", "image") in ("image", "prompt", "")
    assert not hasattr(row, "request") or row.request.image == ["a.png", "b.png"]


def test_other_json_is_no_list_of_requests(problems):
    assert problems("5", "json")[0].startswith("1:1: a JSON file of requests begins with [")


def test_an_element_larger_than_the_chunks_it_is_read_in_is_whole(requests):
    prompt = 'a ] } , \\ " é\n' * 30_000
    assert [one.prompt for one in requests(json.dumps([{"prompt": prompt}, {"prompt": "b"}]))] == [prompt, "b"]


def test_an_element_that_is_too_long_ends_reading_with_a_problem(rows):
    row, problem = rows(b'[{"prompt": "a"}, {"prompt": "' + b"x" * (65 << 20) + b'"}]')
    assert row.request.prompt == "a"
    assert (problem.line, problem.cause) == (1, "longer than 64 MiB")
