"""`omni-gen info`: the facts for a bug report."""

import json
import platform
import sys
from typing import Annotated, Any

import typer

from omni_cli import __version__
from omni_cli.cores import usable_cores

_PACKAGES = ("torch", "diffusers", "transformers", "accelerate", "safetensors", "av", "imageio", "pillow", "numpy")


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
    devices: Annotated[bool, typer.Option(help="Ask torch for devices (a few seconds).")] = True,
) -> None:
    """Show versions, devices and their dtypes, formats, codecs and their pixel formats."""
    # Imported here: --help stays fast.
    from omni_cli.cli.environment import find_codecs, find_devices, find_formats, find_workers, package_version
    from omni_cli.dependencies import describe_unmet, unmet_requirements

    found = find_devices() if devices else None
    facts: dict[str, Any] = {
        "omni-gen": __version__,
        "python": sys.version.split()[0],
        "system": platform.platform(),
        "cpus": usable_cores(),
        "packages": {name: package_version(name) for name in _PACKAGES},
        "unmet requirements": describe_unmet(unmet_requirements()) or None,
        "devices": found,
        "workers": find_workers(found),
        "formats": find_formats(),
        "codecs": find_codecs(),
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
