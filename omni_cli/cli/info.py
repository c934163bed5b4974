"""`omni-gen info`: what to paste into a bug report."""

import json
import os
import platform
import sys
from typing import Annotated, Any

import typer

from omni_cli import __version__

_PACKAGES = ("torch", "diffusers", "transformers", "accelerate", "safetensors", "av", "imageio", "pillow", "numpy")


def info(
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object on stdout.")] = False,
    devices: Annotated[bool, typer.Option(help="Ask torch for devices (a few seconds).")] = True,
) -> None:
    """Versions, devices and their dtypes, formats, codecs and their pixel formats."""
    # Imported when the facts are wanted: --help stays fast.
    from omni_cli.cli.facts import available, codecs_here, devices_here, version

    facts: dict[str, Any] = {
        "omni-gen": __version__,
        "python": sys.version.split()[0],
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": {name: version(name) for name in _PACKAGES},
        "devices": devices_here() if devices else None,
        "formats": available(),
        "codecs": codecs_here(),
    }
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        if isinstance(value, dict):
            typer.echo(f"{name}:")
            for key, entry in value.items():
                typer.echo(f"  {key}: {entry}")
        elif isinstance(value, list):
            typer.echo(f"{name}: " + ", ".join(f"{d['type']} x{d['count']} ({d['dtype']})" for d in value))
        elif value is not None:
            typer.echo(f"{name}: {value}")
