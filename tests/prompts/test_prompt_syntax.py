"""The syntax of other tools in prompts is read, or told once; the files of the field run or are told right."""

import io
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from omni_cli.config import PromptsConfig, RunConfig
from omni_cli.errors import Diagnostic, UsageError
from omni_cli.prompts import read
from omni_cli.prompts.expansion import Expander
from omni_cli.prompts.reader import ReadOptions
from omni_cli.prompts.row import LocatedRequest
from omni_cli.request import Adapter, GenerationRequest

Read = Callable[..., list[LocatedRequest | Diagnostic]]

KOHYA = "# comment\na red circle --n blur --w 64 --d 42\na blue square --d 43\n"
INVOKE = '"a red circle" -n2 -S1234\n// a comment\na blue square -s 4\n'
A1111 = '--prompt "a red circle" --negative_prompt "blur" --steps 4\n--prompt "a blue square"\n'
SEPARATED = "a red circle\n---\na blue square\n"


@pytest.fixture
def loras(tmp_path: Path) -> Path:
    for name in ("ink.safetensors", "styles/oil.safetensors", "a/twice.safetensors", "b/twice.safetensors", "old.pt"):
        path = tmp_path / "loras" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "loras"


@pytest.fixture
def a1111(loras: Path) -> Read:
    def rows(content: str, kind: str = "txt", **settings: Any) -> list[LocatedRequest | Diagnostic]:
        config = PromptsConfig(**{"syntax": "a1111", "lora_dir": str(loras), **settings})
        options = ReadOptions(format=kind)
        source = read("-", binary=io.BytesIO(content.encode()), options=options)
        return list(Expander(RunConfig(prompts=config)).rows(source, Path()))

    return rows


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (KOHYA, [{"negative_prompt": "blur", "width": 64, "seed": 42}, {"seed": 43}]),
        (INVOKE, [{"num_outputs": 2, "seed": 1234}, {"num_inference_steps": 4}]),
        (A1111, [{"negative_prompt": "blur", "num_inference_steps": 4}, {}]),
        (SEPARATED, [{}, {}]),
    ],
)
def test_lists_of_other_tools_are_read(a1111: Read, content: str, expected: list[dict[str, Any]]) -> None:
    requests = [row.request for row in a1111(content) if isinstance(row, LocatedRequest)]
    prompts = ["a red circle", "a blue square"]
    assert requests == [GenerationRequest(prompt=p, **fields) for p, fields in zip(prompts, expected, strict=True)]


@pytest.mark.parametrize(
    ("prompt", "words", "adapters"),
    [
        ("a <lora:ink:0.8> circle", "a circle", [("ink", 0.8)]),
        ("a circle<lora:ink>, <LORA:styles/oil:-1:-1>", "a circle,", [("ink", 1.0), ("styles/oil", -1.0)]),
        ("<lora:oil:0.5> a circle", "a circle", [("styles/oil", 0.5)]),
        ("a <lora:b/twice.safetensors:1>", "a", [("b/twice", 1.0)]),
    ],
)
def test_lora_tags_become_adapters(
    a1111: Read, loras: Path, prompt: str, words: str, adapters: list[tuple[str, float]]
) -> None:
    (row,) = a1111(prompt)
    assert isinstance(row, LocatedRequest)
    expected = [Adapter(path=str(loras / f"{name}.safetensors"), weight=weight) for name, weight in adapters]
    assert (row.request.prompt, row.request.lora) == (words, expected)


def test_tags_come_after_the_adapters_of_the_row(a1111: Read, loras: Path) -> None:
    (row,) = a1111('{"prompt": "a <lora:ink:1>", "lora": ["x/y"]}', "jsonl")
    assert isinstance(row, LocatedRequest)
    assert [adapter.path for adapter in row.request.lora or ()] == ["x/y", str(loras / "ink.safetensors")]


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (
            "a <lora:Style/oil:0.8>",
            "txt",
            '1:3: prompt: there is no LoRA "Style/oil" in .*; did you mean "styles/oil"?',
        ),
        ("a <lora:INK:0.8>", "txt", 'did you mean "ink"?'),
        ("a <lora:../ink:1>", "txt", '1:3: prompt: there is no LoRA "../ink"'),
        ("a <lora:old:1>", "txt", '1:3: .*put it there as "old.safetensors"'),
        ("a <lora:twice:1>", "txt", '1:3: prompt: 2 files in .* are called "twice"; name one of "a/twice", "b/twice"'),
        ("a <lora:ink:1:0.5>", "txt", "1:3: prompt: .*expected one weight for the whole adapter"),
        ("a <lora:ink:nan>", "txt", "1:3: prompt: .*expected one weight"),
        ("a <lora:ink:1> <lora:ink:2>", "txt", "1:16: prompt: .*given twice"),
        ("a <hypernet:ink:1>", "txt", "1:3: prompt: .*networks of this kind"),
        ("a --n <lora:ink:1>", "txt", "1:7: prompt: .*read in prompts only"),
        ("<lora:ink:1> --w 64", "txt", "1:1: prompt: has no words besides flags and tags"),
        ("a <lora:ink:1> (b --w 64", "txt", "1:16: prompt: a [(] that is not closed"),
        ("a --w wide", "txt", "1:7: prompt: --w: expected a whole number"),
        ('{"prompt": "a --w 64", "width": 80}', "jsonl", "1:19: prompt: width is given in the prompt and by the row"),
        ('{"prompt": "a", "negative_prompt": "b)"}', "jsonl", "1:38: negative_prompt: a [)] without its bracket"),
        ("a {b|c} --w wide", "txt", None),
    ],
)
def test_mistakes_are_placed_in_the_prompt(a1111: Read, content: str, kind: str, message: str | None) -> None:
    settings = {} if message else {"expand": "all"}
    (problem,) = a1111(content, kind, **settings)
    assert isinstance(problem, Diagnostic)
    assert re.search(message or "1:1: prompt: --w: expected", str(problem)), str(problem)


def test_field_of_a_flag_is_located_at_its_value(a1111: Read) -> None:
    (row,) = a1111("a cat --w 65")
    assert isinstance(row, LocatedRequest)
    assert str(row.problem("width", "is wrong")) == "<stdin>:1:11: width: is wrong"
    assert str(row.problem("seed", "is wrong")) == "<stdin>:1:1: seed: is wrong"


def test_a_lora_folder_must_be_there_and_tags_need_one(a1111: Read, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--lora-dir .*: no such folder"):
        a1111("a", lora_dir=str(tmp_path / "none"))
    (problem,) = a1111("a <lora:ink:1>", lora_dir=None)
    assert "--lora-dir names the folder" in str(problem)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (KOHYA, ['2: "--n blur --w 64 --d 42": prompt syntax of another tool is rendered as words']),
        (INVOKE, ['1: "-S1234"']),
        (A1111, ['1: "--prompt']),
        (SEPARATED, ['2: "---"']),
        ("a (red:1.3) circle <lora:x:1>\nb BREAK (c:2)", ['1: "<lora:x:1>" and "(red:1.3)"']),
        ("plain\n" * 700 + "a [c:d:0.5]", ['701: "[c:d:0.5]"']),
        ("a {b|c} __d__", ['1: "{b|c}" and "__d__"']),
        ("a (b) c -- d, -5 x__y__z {e} f|g 16:9 https://h i-- \\(j\\)", []),
    ],
)
def test_in_auto_it_is_told_once_and_rendered_as_words(
    a1111: Read, caplog: pytest.LogCaptureFixture, content: str, shown: list[str]
) -> None:
    with caplog.at_level(logging.WARNING):
        rows = a1111(content, syntax="auto")
        assert len(rows) == len([line for line in content.splitlines() if not line.startswith("#")])
    assert len(caplog.messages) == len(shown)
    for message, beginning in zip(caplog.messages, shown, strict=True):
        assert message.startswith(f"<stdin>:{beginning}")
        assert "--prompt-syntax" in message
    caplog.clear()
    a1111(content, syntax="plain")
    assert caplog.messages == []


def test_a_second_pass_tells_nothing_and_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    expander = Expander(RunConfig())
    rows = list(read("-", binary=io.BytesIO(b"a (b:1.3)")))
    assert list(expander.rows(iter(rows), Path())) == rows
    again = iter(rows)
    assert expander.rows(again, Path()) is again
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    "part",
    ["{|", "(:1", "[:1", "(:", " ", "__a", "<lora:", "--a ", '--a "', " -s 1 x", " -s 1", "1", "\\", "{a", "|", "_"],
)
def test_long_prompts_take_time_in_proportion_to_their_length(a1111: Read, part: str) -> None:
    prompt = "(:x" + part * 30_000 + "x"  # a quadratic step over these would take minutes
    for settings in ({"syntax": "auto"}, {}, {"expand": "all"}):
        assert a1111(prompt, **settings)


@pytest.mark.parametrize(
    ("content", "request_of_it", "column"),
    [
        ("a (red:1.3) c", GenerationRequest(prompt="a (red:1.3) c", prompt_weighting="a1111"), 3),
        ("a <lora:ink> \\(b [c]", GenerationRequest(prompt="a \\(b [c]", prompt_weighting="a1111"), 18),
        ("a (red:1) \\(b\\)", GenerationRequest(prompt="a red (b)"), None),
        (
            "a \\(b --n (c:2)",
            GenerationRequest(prompt="a \\(b", negative_prompt="(c:2)", prompt_weighting="a1111"),
            None,
        ),
    ],
)
def test_weights_stay_in_texts_that_have_some_and_brackets_become_words_elsewhere(
    a1111: Read, content: str, request_of_it: GenerationRequest, column: int | None
) -> None:
    (row,) = a1111(content)
    assert isinstance(row, LocatedRequest)
    assert structs.replace(row.request, lora=None) == request_of_it
    if column is not None:
        assert str(row.problem("prompt_weighting", "is wrong")) == f"<stdin>:1:{column}: prompt_weighting: is wrong"


def test_a_row_may_ask_for_weights_itself(a1111: Read) -> None:
    row = '{"prompt": "a (b:1) \\\\(c", "prompt_weighting": "a1111"}'
    (weighted,) = a1111(row, "jsonl")
    assert isinstance(weighted, LocatedRequest)
    assert weighted.request == GenerationRequest(prompt="a (b:1) \\(c", prompt_weighting="a1111")
    (problem,) = a1111('{"prompt": "a", "prompt_weighting": "compel"}', "jsonl", syntax="plain")
    assert 'prompt_weighting: unknown syntax "compel"; known: a1111' in str(problem)


def expand_with(content: str, negative: str, **settings: Any) -> list[LocatedRequest | Diagnostic]:
    run = RunConfig(prompts=PromptsConfig(**settings), defaults=GenerationRequest(negative_prompt=negative))
    return list(Expander(run).rows(read("-", binary=io.BytesIO(content.encode())), Path()))


def test_weights_of_the_negative_prompt_flag_count_for_rows_without_one() -> None:
    rows = expand_with("a \\(b\\)\nc --n d", "(blur:1.3)", syntax="a1111")
    assert [row.request for row in rows if isinstance(row, LocatedRequest)] == [
        GenerationRequest(prompt="a \\(b\\)", prompt_weighting="a1111"),
        GenerationRequest(prompt="c", negative_prompt="d"),
    ]
    with pytest.raises(UsageError, match=r"--negative-prompt: a [(] that is not closed"):
        expand_with("a", "(blur", syntax="a1111")


def test_weights_of_matrix_values_are_read_and_their_mistakes_name_the_flag(a1111: Read) -> None:
    rows = a1111("a --w 64", matrix={"negative_prompt": ["(b:2)", "c"], "width": [80]})
    assert [row.request for row in rows if isinstance(row, LocatedRequest)] == [
        GenerationRequest(prompt="a", negative_prompt="(b:2)", prompt_weighting="a1111", width=80),
        GenerationRequest(prompt="a", negative_prompt="c", width=80),
    ]
    (problem,) = a1111("a", matrix={"negative_prompt": ["(b"]})
    assert str(problem).startswith("--matrix negative_prompt: a ( that is not closed")


def test_negative_prompts_are_looked_through_too(caplog: pytest.LogCaptureFixture) -> None:
    expand_with('{"prompt": "a"}\n{"prompt": "b", "negative_prompt": "(c:1.3)"}\n', "")
    expand_with("a", "(worst quality:1.4)")
    expand_with('{"prompt": "a (b:1.3)", "prompt_weighting": "a1111"}\n', "")
    assert [message.partition(" prompt syntax")[0] for message in caplog.messages] == [
        '<stdin>:2: "(c:1.3)":',
        '--negative-prompt: "(worst quality:1.4)":',
    ]


def test_each_list_of_a_program_is_looked_through_until_something_was_told(caplog: pytest.LogCaptureFixture) -> None:
    expander = Expander(RunConfig())
    for prompt in ("a", "b (c:1.3)", "d (e:2)"):
        rows = read("-", binary=io.BytesIO(prompt.encode()))
        assert len(list(expander.rows(rows, Path(), endless=True))) == 1
    assert [message.partition(": prompt")[0] for message in caplog.messages] == ['<stdin>:1: "(c:1.3)"']
