"""YAML lists: scalars as in JSON, places in the file, nothing that a document can do to the reader."""

import pytest

from omni_cli.request import Adapter, GenerationRequest


def test_a_list_holds_mappings_and_prompts(requests):
    text = (
        "# a list\n- prompt: a red circle\n  seed: 7\n  lora: [{path: l.safetensors, weight: 0.5}]\n"
        "- a blue square\n"
        '- {prompt: "12", negative_prompt: no, extra: {eta: 1e-1, flag: true, nothing: ~}}\n'
        "- |\n  two\n  lines\n"
    )
    assert requests(text, "yaml") == [
        GenerationRequest(prompt="a red circle", seed=7, lora=[Adapter(path="l.safetensors", weight=0.5)]),
        GenerationRequest(prompt="a blue square"),
        GenerationRequest(prompt="12", negative_prompt="no", extra={"eta": 0.1, "flag": True, "nothing": None}),
        GenerationRequest(prompt="two\nlines\n"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "prompts:\n- prompt: a\n- prompt: b\n",
        "anything:\n- prompt: a\n- prompt: b\n",
        "prompts: [a, b]\n",
        "Texts:\n  - a\n  - prompt: b\n",
        "prompt: a\n---\nprompt: b\n",
        "- &x {prompt: a}\n- {<<: *x, prompt: b}\n",
    ],
)
def test_a_mapping_with_a_list_documents_and_merges(requests, text):
    assert [one.prompt for one in requests(text, "yaml")] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("colors: [red, blue]\n", '1:1: unknown field "colors"'),
        ("prompt: [a, b]\n", "1:9: prompt: expected text"),
        ("lora: [{path: l.safetensors}]\n", "1:1: prompt: is missing"),
        ("prompts: [a, 5]\n", "1:14: expected an object"),
        ("prompts: [a]\nseed: 1\n", '1:1: unknown field "prompts"'),
        ("[prompts]: [a]\n", '1:1: unknown field "? "'),
    ],
)
def test_a_mapping_with_another_list_is_a_request(problems, text, problem):
    assert problems(text, "yaml")[0].startswith(problem)


def test_mistakes_are_placed_in_the_file(problems):
    assert problems("- prompt: é\n  sede: 1\n-\n  prompt: b\n  seed: -1\n- 5\n", "yaml") == [
        '2:3: unknown field "sede"; did you mean "seed"?',
        "5:9: seed: expected a whole number from 0 to 9223372036854775807, got -1",
        '6:3: expected an object, such as {"prompt": "..."}, got 5',
    ]
    assert problems("- prompt: a\n  prompt: b\n", "yaml") == ["2:3: prompt: is given twice; keep one"]
    assert problems("- prompt: 42\n", "yaml") == ["1:11: prompt: expected text in double quotes, got 42"]


@pytest.mark.parametrize(
    "text", ["- a: b: c\n", "\t- a\n", "- [\n", "- 'a\n", "- *x\n", "- !!python/object:os.x {}\n- [", "- \x00"]
)
def test_what_is_no_yaml_is_one_problem_with_a_place(problems, text):
    (problem,) = problems(text, "yaml")
    assert problem.isprintable()
    assert problem.endswith("put text that holds : # or quotes in double quotes")


def test_aliases_that_stand_for_too_much_are_refused(problems):
    lines = ["- &a0 {extra: {k: x}}"] + [f"- &a{n} {{k: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 12)]
    assert problems("\n".join(lines), "yaml")


@pytest.mark.parametrize("text", ["", "# nothing\n", "[]", "---\n"])
def test_an_empty_file_is_one_problem(problems, text):
    assert problems(text, "yaml") == ["1:1: no requests; give at least one"]
