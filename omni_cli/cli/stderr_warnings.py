"""Warnings of commands without a progress view."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from omni_cli.log import warnings_to
from omni_cli.text import printable


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Print each warning of the package inside the `with` block as a line on stderr."""
    with warnings_to(lambda text: typer.echo(f"omni-gen: warning: {printable(text)}", err=True)):
        yield
