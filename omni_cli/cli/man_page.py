"""`omni-gen man`: the manual page, made from the help of every command."""

import typer

from omni_cli import __version__
from omni_cli.cli.command_help import CommandHelp, command_helps

EXIT_CODES = (
    ("0", "Everything is done."),
    ("1", "Some requests failed; their rows say why."),
    ("2", "Bad usage or a mistake in the prompt file; nothing was rendered."),
    ("3", "The engine could not start, or died."),
    ("129, 130, 143", "Ended by SIGHUP, SIGINT or SIGTERM; the same command completes the rest."),
)


def man(context: typer.Context) -> None:
    """Print the manual page: `omni-gen man | man -l -`, or into `~/.local/share/man/man1/omni-gen.1`."""
    typer.echo(man_page(list(command_helps(context.find_root().command, "omni-gen"))), nl=False)


def man_page(commands: list[CommandHelp]) -> str:
    """Return the page in the man(7) macros of roff; the first of `commands` is the program itself."""
    program = commands[0]
    lines = [
        f'.TH {_quoted(program.name.upper())} 1 "" {_quoted(f"{program.name} {__version__}")} "User Commands"',
        ".SH NAME",
        _text(f"{program.name} - {program.text}"),
        ".SH SYNOPSIS",
    ]
    for command in commands[1:]:
        lines += [f".B {_text(command.name)}", _text(command.usage), ".br"]
    for command in commands:
        lines += [f".SH {_quoted(command.name.upper())}", *_paragraphs(command.text)]
        for title, options in command.panels.items():
            lines.append(f".SS {_quoted(title)}")
            for names, explanation in options:
                lines += [".TP", f".B {_text(names)}", _text(explanation or names)]
    lines.append('.SH "EXIT STATUS"')
    for code, meaning in EXIT_CODES:
        lines += [".TP", f".B {_text(code)}", _text(meaning)]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> list[str]:
    return [line for part in text.split("\n\n") for line in (".PP", _text(" ".join(part.split())))]


def _quoted(text: str) -> str:
    return '"' + _text(text).replace('"', '""') + '"'


def _text(text: str) -> str:
    """Return `text` as roff prints it: hyphens that can be copied, and no line that reads as a request."""
    text = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
