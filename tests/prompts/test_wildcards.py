"""Wildcard files: their lines are read once, and mistakes name file and line."""

from pathlib import Path

import pytest

from omni_cli.errors import DiagnosticError, UsageError
from omni_cli.prompts.templates import parse_template, texts
from omni_cli.prompts.wildcards import Wildcards


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "colors.txt": "\ufeff# comment\nred\r\n\nlight {blue|green}\n",
        "animals/cats.txt": "cat",
        "animals/dogs.txt": "dog",
        "pets.txt": "__animals/*__\n",
        "loop.txt": "__again__",
        "again.txt": "a\n  b __loop__",
        "open.txt": "fine\n  {a|b\n",
        "empty.txt": "# nothing\n",
    }
    for name, text in files.items():
        path = tmp_path / "wildcards" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "wildcards/latin.txt").write_bytes(b"caf\xe9")
    return tmp_path


def expand(folder: Path, text: str) -> list[str]:
    return list(texts(parse_template(text, Wildcards(None, folder).template)))


def test_lines_are_options_and_may_hold_alternatives_and_wildcards(folder: Path) -> None:
    assert expand(folder, "__colors__") == ["red", "light blue", "light green"]
    assert expand(folder, "a __pets__") == ["a cat", "a dog"]
    assert expand(folder, "a __*/cats__") == ["a cat"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("colours", 'there is no wildcard "colours" in .*; did you mean "colors"?'),
        ("../colors", "there is no wildcard"),
        ("again", r"leads to itself \(at .*loop.txt:1:1\) \(at .*again.txt:2:5\); change the line"),
        ("open", r"a { without its } \(at .*open.txt:2:3\)"),
        ("empty", "has no lines"),
        ("latin", "latin.txt cannot be read: it is not UTF-8"),
    ],
)
def test_mistakes_name_the_wildcard_and_the_place_in_its_file(folder: Path, name: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message):
        expand(folder, f"a __{name}__")


def test_a_folder_that_is_named_must_be_there_and_the_default_one_need_not(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--wildcards .*: no such folder"):
        Wildcards(str(tmp_path / "none"), tmp_path)
    with pytest.raises(DiagnosticError, match="there is no folder"):
        expand(tmp_path, "__x__")


def test_files_are_read_once(folder: Path) -> None:
    wildcards = Wildcards(None, folder)
    before = wildcards.template("colors", 1)
    (folder / "wildcards/colors.txt").write_text("black")
    assert wildcards.template("colors", 1) is before
