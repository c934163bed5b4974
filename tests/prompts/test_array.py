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


def test_what_is_wrong_between_elements_is_a_problem_and_reading_goes_on(faults, rows):
    text = '[{"prompt": "a"},, 5,\n {"prompt": "b"} {"prompt": "c"}, {"prompt": "d"],\n {"prompt": "e"},\n]\n x'
    assert faults(text) == [
        "1:18: nothing before this comma; remove it",
        '1:20: a request is an object, and 5 is a number; write {"prompt": "..."}',
        "2:18: more text after the end of the request; write one request a line, or separate them with commas in [ ]",
        '2:49: unexpected "]"; put a comma or } here',
        "3:17: trailing comma before ]; remove it",
        "5:2: more text after the end of the array; remove it, or put all requests in one array",
    ]
    assert rows(text)[-3].request.prompt == "e"


def test_an_array_that_is_cut_off_gives_its_whole_elements_and_a_problem(rows):
    row, fault = rows('[{"prompt": "a"}')
    assert row.request.prompt == "a"
    assert (fault.line, fault.column, fault.message) == (1, 17, "the array is not closed")


def test_a_lone_object_is_an_array_of_one(rows, faults):
    (row,) = rows('\n{\n "prompt": "a"\n}\n', "json")
    assert (row.request.prompt, row.at("prompt")) == ("a", (3, 12))
    assert faults('{"prompt": "a"}\n{"prompt": "b"}', "json")[0].startswith("2:1: more text after the end")


def test_other_json_is_no_list_of_requests(faults):
    assert faults("5", "json")[0].startswith("1:1: a JSON file of requests begins with [")


def test_an_element_larger_than_the_chunks_it_is_read_in_is_whole(requests):
    prompt = 'a ] } , \\ " é\n' * 30_000
    assert [one.prompt for one in requests(json.dumps([{"prompt": prompt}, {"prompt": "b"}]))] == [prompt, "b"]


def test_an_element_too_long_to_keep_ends_the_reading_with_a_problem(rows):
    row, fault = rows(b'[{"prompt": "a"}, {"prompt": "' + b"x" * (65 << 20) + b'"}]')
    assert row.request.prompt == "a"
    assert (fault.line, fault.message) == (1, "longer than 64 MiB")
