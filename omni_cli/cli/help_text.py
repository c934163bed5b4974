"""The help of commands: flags by group in the order of use, every name whole, on 80 columns as well.

A command with many flags shows those that are used most; `--help-all` shows all of them.
"""

import re
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from omni_cli.cli.options.panels import PANELS

_SHOW_ALL = "omni_gen.help_all"
"""Key of `typer.Context.meta`: the help shows all flags."""

_WORDS = {
    **dict.fromkeys(("str", "text"), "TEXT"),
    **dict.fromkeys(("int", "integer", "int range", "integer range"), "N"),
    **dict.fromkeys(("float", "float range"), "X"),
    "path": "PATH",
}
"""What stands for a flag's value, by typer's names of types: they differ between its versions."""

_NAMES_AND_VALUE = re.compile(r"(?P<names>-[\w-]+(?:, -[\w-]+)*) (?P<value>[^/].*)")

_HUGE_RANGE = re.compile(r"; 0<=x<=\d{10,}|  \[0<=x<=\d{10,}\]")
"""A range that says no more than that a number is not negative."""

MAX_CHOICES = 45
"""Characters of a flag's choices in the first column."""

Records = list[tuple[str, str]]
"""Names of flags with their texts."""


class _FlagsByPanel:
    """Writes the flags of a command by panel, as plain text: the boxes of typer cut long names."""

    first_flags: ClassVar[tuple[str, ...]] = ()
    """Parameters that the help shows if not all are asked for; if there are none here, it shows all of them."""

    params: list[Any]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, then how many are left out, then the commands of a group."""
        shown = [parameter for parameter in self.params if not parameter.hidden and self._is_shown(parameter, ctx)]
        for panel, records in by_panel(shown, ctx).items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)
        left_out = len(self.params) - len(shown)
        if left_out:
            formatter.write_paragraph()
            formatter.write_text(f"{left_out} more flags: {ctx.command_path} --help-all")
        if isinstance(self, TyperGroup):
            self.format_commands(ctx, formatter)

    def _is_shown(self, parameter: Any, ctx: Any) -> bool:
        return not self.first_flags or _SHOW_ALL in ctx.meta or parameter.name in self.first_flags


class HelpCommand(_FlagsByPanel, TyperCommand):
    """A command with this help."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take the arguments of TyperCommand."""
        super().__init__(*args, **options | {"rich_markup_mode": None})


class HelpGroup(_FlagsByPanel, TyperGroup):
    """A group of commands with this help. Its errors look as typer's do."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write usage, text, options and commands."""
        for write in (self.format_usage, self.format_help_text, self.format_options, self.format_epilog):
            write(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the first sentence of each command's text, in full."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_sentence(one.help or "")) for name, one in commands if one is not None])


def by_panel(parameters: list[Any], ctx: Any) -> dict[str, Records]:
    """Return the records of `parameters` by panel, in the order of `PANELS`; those without one come first.

    A panel that is not in `PANELS` comes last.
    """
    panels: dict[str, Records] = {panel: [] for panel in ("Arguments", "Options", *PANELS)}
    for parameter in parameters:
        is_argument = parameter.param_type_name == "argument"
        panel = parameter.rich_help_panel or ("Arguments" if is_argument else "Options")
        names, text = _record(parameter, ctx)
        panels.setdefault(panel, []).append((_argument_name(parameter) if is_argument else names, text))
    return panels


def _record(option: Any, ctx: Any) -> tuple[str, str]:
    """Return the names of an option with what stands for its value in our words (`--fps X`), and its text.

    A list of choices that is too long for the first column goes to the text.
    """
    names, text = option.get_help_record(ctx)
    text = _HUGE_RANGE.sub("", text)
    match = _NAMES_AND_VALUE.fullmatch(names)
    if match is None:
        return names, text
    value = match["value"].strip("<>[]") if match["value"][0] in "<[" else match["value"]
    if len(value) > MAX_CHOICES:
        return f"{match['names']} NAME", f"{text} One of {value.replace('|', ', ')}."
    value = value.removeprefix("list[")  # of a flag that can be repeated
    return f"{match['names']} {_WORDS.get(value.lower(), value)}", text


def _argument_name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _first_sentence(text: str) -> str:
    first, _, _ = " ".join(text.split()).partition(". ")
    return f"{first.removesuffix('.')}."


def _show_all(context: typer.Context, requested: bool) -> None:
    if requested:
        context.meta[_SHOW_ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool, typer.Option("--help-all", help="Show all flags and exit.", callback=_show_all, is_eager=True)
]
