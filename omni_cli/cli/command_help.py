"""The help of every command as data, for the pages that are made from it: the man page and the command reference."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import typer
from typer.core import TyperGroup

from omni_cli.cli.help_text import by_panel


@dataclass(frozen=True, slots=True)
class CommandHelp:
    """The help of one command.

    `name` is the whole command ("omni-gen bench engine"), `usage` the words behind it. `panels` maps the title of each
    panel to its options, as pairs of (names and value, explanation).
    """

    name: str
    usage: str
    text: str
    panels: dict[str, list[tuple[str, str]]] = field(default_factory=dict)


def command_helps(command: Any, name: str) -> Iterator[CommandHelp]:
    """Yield the help of `command`, called `name`, and of each of its subcommands, in the order of `--help`.

    `command` is one of click, which some versions of typer bring along and others depend on.
    """
    context = typer.Context(command, info_name=name)
    shown = [parameter for parameter in command.params if not parameter.hidden]
    panels = {title: records for title, records in by_panel(shown, context).items() if records}
    usage = " ".join(command.collect_usage_pieces(context))
    yield CommandHelp(name, usage, command.help or "", panels)
    if isinstance(command, TyperGroup):
        for word, subcommand in command.commands.items():
            if not subcommand.hidden:
                yield from command_helps(subcommand, f"{name} {word}")
