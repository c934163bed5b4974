"""The command line: one small file per command, one error boundary, exit codes fixed in `errors`.

Nothing here or in a command imports torch: `omni-gen --help`, `validate` and `info --no-devices` stay fast and small.
"""

import signal
import sys
import tempfile
import traceback
from typing import Annotated, NoReturn

import typer

from omni_cli import __version__
from omni_cli.cli.bench import bench_app
from omni_cli.cli.help_text import HelpCommand, HelpGroup
from omni_cli.cli.html_report import report
from omni_cli.cli.info import info
from omni_cli.cli.init import init
from omni_cli.cli.man_page import man
from omni_cli.cli.replay import replay
from omni_cli.cli.run import RunCommand, run
from omni_cli.cli.schema import schema
from omni_cli.cli.sheet import sheet
from omni_cli.cli.signals import heeded_signals
from omni_cli.cli.status import status
from omni_cli.cli.validate import validate
from omni_cli.cli.verify import verify
from omni_cli.errors import OmniGenError, PromptFileError
from omni_cli.text import escape

HELP_OPTIONS = ["-h", "--help"]
HELP_FLAGS = {*HELP_OPTIONS, "--help-all"}

WITHOUT_MODEL = {"validate", "status", "report", "sheet", "man", "init", "schema"}
"""Commands that start no worker. `info` shows what is wrong with the packages instead of refusing to run."""

app = typer.Typer(
    name="omni-gen",
    cls=HelpGroup,
    help="A file of prompts in, images and videos out, as fast as the device can go.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP_OPTIONS, "max_content_width": 100},
)
app.command("run", cls=RunCommand)(run)
app.command("validate", cls=HelpCommand)(validate)
app.command("replay", cls=HelpCommand)(replay)
app.command("verify", cls=HelpCommand)(verify)
app.command("status", cls=HelpCommand)(status)
app.command("report", cls=HelpCommand)(report)
app.command("sheet", cls=HelpCommand)(sheet)
app.command("init", cls=HelpCommand)(init)
app.command("schema", cls=HelpCommand)(schema)
app.command("info", cls=HelpCommand)(info)
app.command("man", cls=HelpCommand)(man)
app.add_typer(bench_app, name="bench", cls=HelpGroup)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"omni-gen {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that belong to no command, and check the packages that the command needs."""
    command = context.invoked_subcommand
    if command != "info" and not HELP_FLAGS & set(sys.argv):
        from omni_cli.dependencies import check_dependencies  # --help stays fast

        check_dependencies(model=command not in WITHOUT_MODEL)


def main() -> NoReturn:
    """Run the command line. Exit codes: 0 done, 1 some failed, 2 bad usage, 3 engine, 129/130/143 interrupted."""
    # Ctrl-C ends a short command with 130, as shells expect; `run` installs its own handlers.
    if signal.SIGINT in heeded_signals():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        app()
    except OmniGenError as error:
        _print_error(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(1)  # the reader of our output has closed it
    except Exception:
        _print_bug()
        sys.exit(3)
    sys.exit(0)


def _print_error(error: OmniGenError) -> None:
    """Print the message without a traceback: it names what is wrong, where, and what to do."""
    text = escape(str(error), keep="\n\t")
    if isinstance(error, PromptFileError):
        text += f"\nomni-gen: {error.count:,} problem{'s' if error.count > 1 else ''}; nothing was rendered"
    else:
        text = f"omni-gen: {text}"
    print(text, file=sys.stderr)  # noqa: T201


def _print_bug() -> None:
    """Write the traceback of a bug to a file for the report, or to stderr if no file can be written."""
    kind = sys.exc_info()[0]
    name = kind.__name__ if kind else "error"
    text = f"omni-gen {__version__} python {sys.version}\n{traceback.format_exc()}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="omni-gen-", suffix=".log", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
        place = file.name
    except OSError:
        place = f"this:\n{text}"
    print(f"omni-gen: this is a bug ({name}); please report it with {place}", file=sys.stderr)  # noqa: T201
