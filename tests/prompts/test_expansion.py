"""Rows become requests: each with its own number, id and seed, lazily, with limits and located mistakes."""

import io
import json
import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_cli.config import PromptsConfig, RunConfig
from omni_cli.errors import Diagnostic, UsageError
from omni_cli.planner.identity import with_ids
from omni_cli.prompts import expansion, read
from omni_cli.prompts.expansion import Expander
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.prompts.reader import ReadOptions
from omni_cli.prompts.row import LocatedRequest
from omni_cli.prompts.templates import count, parse_template
from omni_cli.request import MAX_SEED, GenerationRequest

Expand = Callable[..., list[LocatedRequest | Diagnostic]]


@pytest.fixture
def expand() -> Expand:
    def rows(content: str, kind: str = "txt", *, run: RunConfig | None = None, **settings: Any) -> list[Any]:
        config = run or RunConfig(prompts=PromptsConfig(**settings))
        options = ReadOptions(format=kind)
        return list(
            Expander(config).rows(read("-", binary=io.BytesIO(content.encode()), options=options), Path("nowhere"))
        )

    return rows


def requests(rows: list[Any]) -> list[GenerationRequest]:
    assert [str(row) for row in rows if isinstance(row, Diagnostic)] == []
    return [row.request for row in rows]


def test_without_settings_the_rows_are_those_of_the_file() -> None:
    rows: Iterator[LocatedRequest | Diagnostic] = iter(())
    assert Expander(RunConfig(prompts=PromptsConfig(syntax="plain"))).rows(rows, Path()) is rows


def test_matrix_values_win_over_the_row_s_and_the_last_flag_varies_fastest(expand: Expand) -> None:
    rows = expand("a\nb\n", matrix={"guidance_scale": [3, 5], "seed": [1, 2]})
    values = [(row.line, row.request.prompt, row.request.guidance_scale, row.request.seed) for row in rows]
    assert values == [
        (1, "a", 3.0, 1), (1, "a", 3.0, 2), (1, "a", 5.0, 1), (1, "a", 5.0, 2),
        (2, "b", 3.0, 1), (2, "b", 3.0, 2), (2, "b", 5.0, 1), (2, "b", 5.0, 2),
    ]  # fmt: skip
    assert [row.index for row in rows] == list(range(8))
    assert requests(expand('{"prompt": "a", "seed": 9}', "jsonl", matrix={"seed": [1]})) == [
        GenerationRequest(prompt="a", seed=1)
    ]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("txt", "a {b|c}\nd\n"),
        ("jsonl", '{"prompt": "a {b|c}"}\n"d"\n'),
        ("json", '["a {b|c}", {"prompt": "d"}]'),
        ("csv", 'prompt\n"a {b|c}"\nd\n'),
        ("yaml", "- a {b|c}\n- prompt: d\n"),
    ],
)
def test_every_format_is_expanded(expand: Expand, kind: str, content: str) -> None:
    rows = expand(content, kind, expand="all", repeat=2)
    assert [(row.index, row.request.prompt) for row in rows] == list(enumerate(["a b", "a b", "a c", "a c", "d", "d"]))


def test_each_request_has_an_identity_of_its_own_which_depends_on_nothing_around_it(expand: Expand) -> None:
    def ids(content: str, **settings: Any) -> list[str]:
        rows = with_ids(expand(content, "jsonl", **settings), Path())
        return [row.request.id or "" for row in rows if not isinstance(row, Diagnostic)]

    rows = '{"prompt": "a {b|c}"}\n{"prompt": "a {b|c}", "id": "x", "output": "d/x.png"}\n'
    found = ids(rows, expand="all", matrix={"steps": [2, 4]}, repeat=2)
    assert len(set(found)) == 16
    fewer = ids(rows.replace("{b|c}", "{c|b}"), expand="all", matrix={"steps": [4]})
    assert set(fewer) < set(found)
    assert all(re.fullmatch(r"x-[0-9a-f]{8}-num_inference_steps-4", name) for name in fewer[2:])
    outputs = [request.output for request in requests(expand(rows, "jsonl", expand="all"))[2:]]
    assert all(output and output.startswith("d/x-") and output.endswith(".png") for output in outputs)
    assert len(set(outputs)) == 2


def test_options_that_give_equal_texts_have_ids_of_their_own(expand: Expand) -> None:
    rows = requests(expand('{"prompt": "{a|a b} {b c|c}", "id": "x"}', "jsonl", expand="all", repeat=2))
    assert [row.prompt for row in rows[::2]] == ["a b c", "a c", "a b b c", "a b c"]
    assert len({row.id for row in rows}) == 8


def test_the_first_repetition_is_the_request_itself_and_seeds_go_on_behind_its_outputs(expand: Expand) -> None:
    row = f'{{"prompt": "a", "id": "x", "seed": {MAX_SEED - 2}, "n": 2}}'
    rows = requests(expand(row, "jsonl", repeat=3))
    assert [(request.id, request.seed) for request in rows] == [("x", MAX_SEED - 2), ("x-2", MAX_SEED), ("x-3", 1)]
    run = RunConfig(prompts=PromptsConfig(repeat=2), defaults=GenerationRequest(num_outputs=4))
    assert [request.seed for request in requests(expand('{"prompt": "a", "seed": 7}', "jsonl", run=run))] == [7, 11]


def test_drawn_combinations_differ_and_depend_on_seed_and_text_alone(expand: Expand) -> None:
    def drawn(content: str, seed: int = 0, number: int = 5) -> list[str | None]:
        run = RunConfig(prompts=PromptsConfig(expand=number), seed=seed)
        return [request.prompt for request in requests(expand(content, run=run))]

    line = "{a|b|c|d}" * 40
    first = drawn(line)
    assert len(set(first)) == 5
    assert drawn(f"z\n{line}")[1:] == first
    assert drawn(line, seed=1) != first
    assert drawn(line, number=8)[:5] == first
    assert drawn("{a|b}") == ["a", "b"]


@pytest.mark.parametrize(
    ("kind", "content", "place"),
    [
        ("txt", "  a {b|c\n", "<stdin>:1:5: prompt: a { without its }"),
        ("jsonl", '{"prompt": "a {b|c"}', "<stdin>:1:15: prompt: a { without its }"),
        ("jsonl", r'{"prompt": "\u0061 {b|c"}', "<stdin>:1:12: prompt: a { without its } (character 3)"),
        ("jsonl", '{"prompt": "a", "negative_prompt": "b}"}', "<stdin>:1:38: negative_prompt: a } without its {"),
        ("csv", 'seed,prompt\n1,"a {b|c"\n', "<stdin>:2:6: prompt: a { without its }"),
        ("txt", "x\n a __b__", '<stdin>:2:4: prompt: there is no wildcard "b"'),
    ],
)
def test_a_mistake_in_a_text_is_placed_at_its_character(expand: Expand, kind: str, content: str, place: str) -> None:
    (problem,) = [row for row in expand(content, kind, expand="all") if isinstance(row, Diagnostic)]
    assert str(problem).startswith(place)


def test_problem_of_a_varied_field_names_the_flag_and_of_another_its_place(expand: Expand) -> None:
    (row,) = expand('{"prompt": "a", "height": 65}', "jsonl", matrix={"size": ["64x65"], "steps": [2]})
    assert str(row.problem("width", "is wrong")) == "--matrix size: is wrong"
    assert str(row.problem("num_inference_steps", "is wrong")) == "--matrix steps: is wrong"
    assert str(row.problem("prompt", "is wrong")) == "<stdin>:1:12: prompt: is wrong"


def test_a_row_of_too_many_requests_is_a_mistake_unless_a_limit_asks_for_them(
    expand: Expand, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "{a|b|c|d|e|f|g|h|i|j}" * 6
    problem, row = expand(f"{line}\nb\n", expand="all")
    assert str(problem).startswith("<stdin>:1:1: this row becomes 1,000,000 requests; at most 100,000")
    assert "--limit N" in str(problem)
    assert (row.request.prompt, row.index) == ("b", 1)
    monkeypatch.setattr(expansion, "MAX_PER_ROW", 11)
    assert isinstance(expand("a", matrix={"seed": range(6), "fps": [8, 9]})[0], Diagnostic)
    assert len(expand("a", matrix={"seed": range(5), "fps": [8, 9]})) == 10
    limited = RunConfig(prompts=PromptsConfig(expand="all"), limit=10)
    rows = Expander(limited).rows(read("-", binary=io.BytesIO(line.encode())), Path())
    assert [row.request.prompt for row in islice(rows, 2) if isinstance(row, LocatedRequest)] == ["aaaaaa", "aaaaab"]
    (endless,) = expand("{a|b}" * 99, run=limited)
    assert "more requests than can be counted" in str(endless)


def test_a_list_of_too_many_requests_is_one_mistake(expand: Expand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "MAX_REQUESTS", 10)
    *rows, problem = expand("a\nb\nc\nd\n", repeat=4)
    assert len(rows) == 12
    assert str(problem).startswith("<stdin>:3:1: the rows up to here become more than 10 requests; --limit N")
    assert len(expand("a\nb\nc\nd\n", run=RunConfig(prompts=PromptsConfig(repeat=4), limit=99))) == 16


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repeat": 0}, "--repeat 0: must be"),
        ({"expand": -1}, "--expand -1: must be"),
        ({"repeat": 2, "matrix": {"seed": [1, 2]}}, "--repeat 2: --matrix seed would make the same outputs again"),
        ({"wildcards": "/nowhere"}, "--wildcards"),
        ({"matrix": {"sed": [1]}}, "--matrix"),
        ({"expand": 5, "matrix": {"negative_prompt": ["a {b|c}"]}}, "--matrix negative_prompt: .*read in rows only"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Expander(RunConfig(prompts=PromptsConfig(**settings)))


def test_rows_of_an_open_pipe_are_expanded_as_they_come() -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"a {b|c}\n")
    expander = Expander(RunConfig(prompts=PromptsConfig(expand="all")))
    with (
        os.fdopen(read_end, "rb") as stdin,
        PromptSource("-", GenerationRequest(), stdin, expander=expander, streaming=True) as source,
    ):
        rows = source.rows()
        assert [row.request.prompt for row in islice(rows, 2) if isinstance(row, LocatedRequest)] == ["a b", "a c"]
        os.close(write_end)
        assert list(rows) == []


TEMPLATES = st.lists(st.sampled_from(["a", " {b|c}", " {2$$d|e|f}", "{, g|}", "{x|{y|z}}"]), min_size=1, max_size=4)


@given(
    prompts=st.lists(TEMPLATES.map("".join), min_size=1, max_size=3),
    seeds=st.integers(0, 3),
    scales=st.integers(0, 2),
    repeat=st.integers(1, 3),
    ids=st.booleans(),
    wanted=st.sampled_from(["all", 3]),
)
@settings(max_examples=60, deadline=None)
def test_any_expansion_has_the_number_of_its_parts_and_requests_of_their_own(
    prompts: list[str], seeds: int, scales: int, repeat: int, ids: bool, wanted: Literal["all", 3]
) -> None:
    axes = {"seed": range(seeds), "guidance_scale": range(scales)}
    repeat = 1 if seeds else repeat
    matrix = {name: list(values) for name, values in axes.items() if values}
    config = RunConfig(prompts=PromptsConfig(expand=wanted, matrix=matrix, repeat=repeat))
    rows = [{"prompt": prompt} | ({"id": f"row{at}"} if ids else {}) for at, prompt in enumerate(prompts)]
    content = io.BytesIO(json.dumps(rows).encode())
    found = list(Expander(config).rows(read("-", binary=content), Path()))
    per_prompt = prod(len(values) for values in matrix.values()) * repeat
    counts = [count(parse_template(prompt, lambda name, depth: ())) for prompt in prompts]
    assert len(found) == sum(number if wanted == "all" else min(number, 3) for number in counts) * per_prompt
    assert [row.index for row in found if isinstance(row, LocatedRequest)] == list(range(len(found)))
    named = [row.request.id for row in with_ids(found, Path()) if not isinstance(row, Diagnostic)]
    assert len(set(named)) == len(found)
