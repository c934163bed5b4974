"""Prompts on the command line, and prompt files that are not there."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_cli.errors import Diagnostic, UsageError
from omni_cli.prompts.byte_stream import is_pipe
from omni_cli.prompts.prompt_texts import PromptTexts
from omni_cli.prompts.reader import ReadOptions
from omni_cli.prompts.row import LocatedRequest
from omni_cli.request import GenerationRequest


def rows_of(*texts: str, options: ReadOptions = ReadOptions()) -> list[LocatedRequest | Diagnostic]:  # noqa: B008
    with PromptTexts(texts, GenerationRequest(), options=options) as source:
        assert not source.live
        first = list(source.rows())
        assert list(map(str, source.rows())) == list(map(str, first))  # it can be read again
        return first


@settings(max_examples=30)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1, max_size=4))
def test_any_text_is_the_prompt_of_a_request_of_its_own(texts: list[str]) -> None:
    for text, row in zip(texts, rows_of(*texts), strict=True):
        if text.strip():
            assert isinstance(row, LocatedRequest)
            assert row.request == GenerationRequest(prompt=text)
        else:
            assert isinstance(row, Diagnostic)


def test_each_prompt_is_a_line_and_options_of_files_do_not_apply() -> None:
    options = ReadOptions(format="csv", encoding="utf-16")
    first, second, third = rows_of("# not a comment", " ", "x\udc80", options=options)
    assert isinstance(first, LocatedRequest)
    assert first.request.prompt == "# not a comment"
    assert str(second).startswith("--prompt:2:1: prompt: is empty")
    assert str(third).startswith("--prompt:3:1: prompt: holds the lone surrogate \\udc80")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a prompt file."""
    (tmp_path / "Shots.jsonl").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a red circle",
            "there is no file \"a red circle\"; to render these words: omni-gen run --prompt 'a red circle'",
        ),
        ("cat", 'there is no file "cat"; to render these words: omni-gen run --prompt cat'),
        ("一只猫", "there is no file \"一只猫\"; to render these words: omni-gen run --prompt '一只猫'"),
        ("a cat/dog, running", "to render these words: omni-gen run --prompt 'a cat/dog, running'"),
        ("it's a circle.", "omni-gen run --prompt 'it'\"'\"'s a circle.'"),
        ("word " * 900, "to render these words: omni-gen run --prompt TEXT"),
        ("a\x1b[31m b", 'there is no file "a\\x1b[31m b"; to render these words: omni-gen run --prompt TEXT'),
        ("my shots.jsonl", 'my shots.jsonl: No such file or directory; did you mean "Shots.jsonl"?'),
        ("more.jsonl", "cannot read prompts from more.jsonl: No such file or directory; check the path"),
        (
            "lists/vbench",
            'cannot read prompts from lists/vbench: No such file or directory; there is no "lists" in "HERE"',
        ),
        ("shots.jsonl", 'there is "HERE/Shots.jsonl": upper and lower case differ'),
        ("Shots.json", 'there is "Shots.jsonl"'),
        ("a\0b", "cannot read prompts from a\\x00b: embedded null byte; check the path"),
    ],
)
def test_a_file_that_is_not_there_is_misspelled_or_is_a_prompt(here: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        is_pipe(text)
    assert message.replace("HERE", str(here)) in str(caught.value)
