"""`omni-gen init`: write a prompt file and settings to start from."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from omni_cli.cli.schema import SchemaTarget, schema_text
from omni_cli.errors import OutputFolderError, UsageError
from omni_cli.text import escape, quote

_FILES = Path(__file__).parent / "init_files"

PROMPTS, SETTINGS, SCHEMA = "prompts.yaml", "omni-gen.yaml", "prompts.schema.json"
NAMES = (PROMPTS, SETTINGS, SCHEMA)


def init(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Where to write them.", show_default=False)] = Path(),
) -> None:
    """Write a commented prompt file and a file with settings to start from. No file is replaced.

    A JSON Schema beside them lets editors complete and check the prompt file. Their paths go to stdout.
    """
    write_files(folder, schema_text(SchemaTarget.PROMPTS, context.find_root().command))
    for name in NAMES:
        typer.echo(escape(str(folder / name)))
    place = "" if folder == Path() else f"cd {escape(shlex.quote(str(folder)))} && "
    typer.echo(f"render them with: {place}omni-gen run {PROMPTS} --config {SETTINGS}", err=True)


def write_files(folder: Path, schema: str) -> None:
    """Write the files to `folder`, with `schema` as that of prompt files.

    Raises UsageError if one is there, OutputFolderError if they cannot be written.
    """
    there = [name for name in NAMES if (folder / name).exists()]
    if there:
        place = quote(str(folder.absolute()), 200)
        raise UsageError(f"{place} has {' and '.join(there)} already; nothing was written: name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            content = schema.encode() if name == SCHEMA else (_FILES / name).read_bytes()
            with (folder / name).open("xb") as file:
                file.write(content)
    except OSError as error:
        raise OutputFolderError(f"{quote(str(folder), 200)} cannot be written: {error.strerror or error}") from error
