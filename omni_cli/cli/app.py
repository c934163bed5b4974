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
from omni_cli.cli.info import info
from omni_cli.cli.replay import replay
from omni_cli.cli.run import run
from omni_cli.cli.validate import validate
from omni_cli.cli.verify import verify
from omni_cli.errors import OmniGenError, PromptFileError

app = typer.Typer(
    name="omni-gen",
    help="A file of prompts in, images and videos out, as fast as the device can go.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("run")(run)
app.command("validate")(validate)
app.command("replay")(replay)
app.command("verify")(verify)
app.command("info")(info)
app.add_typer(bench_app, name="bench")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"omni-gen {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """A file of prompts in, images and videos out, as fast as the device can go."""


def main() -> NoReturn:
    """Run the command line. Exit codes: 0 done, 1 some failed, 2 bad usage, 3 engine, 130/143 interrupted."""
    # Ctrl-C ends a short command as the shell expects (130); `run` installs handlers of its own.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        app()
    except OmniGenError as error:
        _print_error(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(1)  # whoever read our output has left
    except Exception:
        _print_bug()
        sys.exit(3)
    sys.exit(0)


def _print_error(error: OmniGenError) -> None:
    """The message alone: it names what, where and what to do. A worker's traceback is shown when it is all there is."""
    text = "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in str(error))
    if isinstance(error, PromptFileError):
        count = len(error.problems)
        text += f"\nomni-gen: {count} problem{'s' if count > 1 else ''}; nothing was rendered"
    else:
        text = f"omni-gen: {text}"
    print(text, file=sys.stderr)  # noqa: T201


def _print_bug() -> None:
    """A bug of ours: the traceback goes to a file that can be sent along, or to stderr where no file can be written."""
    kind = sys.exc_info()[0]
    name = kind.__name__ if kind else "error"
    text = f"omni-gen {__version__} python {sys.version}\n{traceback.format_exc()}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="omni-gen-", suffix=".log", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
        where = file.name
    except OSError:
        where = f"this:\n{text}"
    print(f"omni-gen: this is a bug ({name}); please report it with {where}", file=sys.stderr)  # noqa: T201
