"""The content of a file decides its format; its name decides what the content leaves open."""

import pytest

from omni_cli.errors import Diagnostic
from omni_cli.prompts import read
from omni_cli.request import GenerationRequest

A_AND_B = {
    "jsonl": '{"prompt": "a", "seed": 1}\n{"prompt": "b", "seed": 2}\n',
    "pretty": '{\n  "prompt": "a",\n  "seed": 1\n}\n{\n  "prompt": "b",\n  "seed": 2\n}\n',
    "array": '[{"prompt": "a", "seed": 1},\n{"prompt": "b", "seed": 2}]',
    "pretty array": '[\n  {\n    "prompt": "a", "seed": 1},\n  {"prompt": "b", "seed": 2}\n]\n',
    "csv": "prompt,seed\na,1\nb,2\n",
    "semicolons": "Seed;Prompt\n1;a\n2;b\n",
    "tsv": "prompt\tseed\na\t1\nb\t2\n",
}


@pytest.mark.parametrize("content", A_AND_B.values(), ids=A_AND_B)
@pytest.mark.parametrize("name", ["p.jsonl", "p.json", "p.csv", "p.tsv", "p.txt", "p", "-"])
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_a_file_is_read_as_what_it_is_whatever_its_name(tmp_path, requests, content, name, ends):
    expected = [GenerationRequest(prompt="a", seed=1), GenerationRequest(prompt="b", seed=2)]
    content = content.replace("\n", ends)
    if name == "-":
        assert requests(content) == expected
        return
    path = tmp_path / name
    path.write_bytes(content.encode())
    assert [row.request for row in read(path)] == expected


@pytest.mark.parametrize(
    "line",
    ["a, red circle", "[a:b:0.5] cat", "{a|b} cat", "prompt for a cat, seed of an apple", "- a cat", "a;b", "sep=;x"],
)
def test_a_prompt_is_not_taken_for_anything_else(requests, line):
    assert [one.prompt for one in requests(f"{line}\nb")] == [line, "b"]


def test_a_list_of_names_that_are_no_fields_stays_text(requests):
    assert [one.prompt for one in requests("category,note\na,b")] == ["category,note", "a,b"]


@pytest.mark.parametrize(
    "content", ['{"prompt": "a"\n{"prompt": "b"}', '{"prompt": "a",\n{"prompt": "b"}', '[]\n{"prompt": "b"}']
)
def test_a_broken_line_does_not_hide_the_lines_below(tmp_path, content):
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    *problems, row = read(path)
    assert [problem.line for problem in problems if isinstance(problem, Diagnostic)] == [1]
    assert (row.request.prompt, row.line) == ("b", 2)


def test_marks_and_headers_of_joined_files(requests, problems):
    assert [one.prompt for one in requests('{"prompt": "a"}\n\ufeff{"prompt": "b"}')] == ["a", "b"]
    assert [one.prompt for one in requests("a\n\ufeffb\n\ufeff# c", "txt")] == ["a", "b"]
    again = "the header stands here again; remove this line: were two files joined?"
    assert problems("prompt\na\nprompt\nb\n\ufeffprompt\nc", "csv") == [f"3:1: {again}", f"5:1: {again}"]
    assert problems('prompt,seed\na,1\n\ufeff"prompt",seed\nb,2', "csv") == [f"3:1: {again}"]
