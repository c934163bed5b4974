"""The help of every command: all flags, whole names, 80 columns; that of `run` is read in a minute."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from omni_cli.cli.app import app
from omni_cli.cli.help_text import HelpGroup
from omni_cli.cli.options.panels import PANELS
from omni_cli.cli.run import RunCommand

COLUMNS = 80
COMMAND: Any = typer.main.get_command(app)
LISTED = re.compile(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*")


def commands(command: Any = COMMAND, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with the words that call it."""
    yield path, command
    if isinstance(command, HelpGroup):
        for name, inner in command.commands.items():
            yield from commands(inner, (*path, name))


def help_of(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": str(COLUMNS)})
    assert result.exit_code == 0, result.output
    return result.output


def sections(text: str) -> dict[str, str]:
    """The text below each heading."""
    parts = re.split(r"(?m)^(\w[^\n]*):$", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def listed(text: str) -> set[str]:
    """Flags at the beginning of the lines of a help text."""
    lines = [line[2:] for line in text.splitlines() if re.match(r"  -", line)]
    return {flag for line in lines for flag in LISTED.findall(re.split(r"(?<=\S)  ", line)[0])}


@pytest.mark.parametrize(("path", "command"), [pytest.param(*one, id=" ".join(one[0])) for one in commands()])
def test_every_flag_is_listed_whole_and_no_line_is_cut(path: tuple[str, ...], command: Any) -> None:
    text = help_of(*path, "--help-all" if isinstance(command, RunCommand) else "--help")
    flags = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts) if flag.startswith("-")}
    assert listed(text) == flags
    assert "\u2026" not in text
    assert max(map(len, text.splitlines())) <= COLUMNS


def test_the_help_of_run_is_read_in_a_minute() -> None:
    text = help_of("run", "--help")
    assert len(text.splitlines()) <= 90
    run = COMMAND.commands["run"]
    assert set(RunCommand.first_flags) <= {parameter.name for parameter in run.params}
    assert f"{len(run.params) - len(RunCommand.first_flags)} more flags: " in text


def test_flags_of_run_are_in_the_order_of_use() -> None:
    names = [name for name in sections(help_of("run", "--help-all")) if name != "Options"]
    assert names == list(PANELS)
    assert list(sections(help_of("run", "--help"))) == [name for name in names if name != "Tuning of the model"]


def test_a_command_is_described_by_its_whole_first_sentence() -> None:
    shown = " ".join(sections(help_of("--help"))["Commands"].split())
    for name, command in COMMAND.commands.items():
        first = " ".join(command.help.split()).partition(". ")[0].removesuffix(".")
        assert f"{name} {first}." in shown
