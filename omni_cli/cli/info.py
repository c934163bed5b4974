"""`omni-gen info`: what to paste into a bug report."""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from typing import Annotated, Any

import typer

from omni_cli import __version__
from omni_cli.errors import UsageError
from omni_cli.writers.formats import FORMATS, check_available

_PACKAGES = ("torch", "diffusers", "transformers", "accelerate", "safetensors", "av", "imageio", "pillow", "numpy")

_DEVICES = """
import json, torch
from omni_cli import platforms
print(json.dumps([
    {"type": p.torch_type, "count": p.device_count(), "dtype": str(p.default_dtype()).removeprefix("torch.")}
    for p in platforms.available()
]))
"""


def info(
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object on stdout.")] = False,
    devices: Annotated[bool, typer.Option(help="Ask torch for devices (a few seconds).")] = True,
) -> None:
    """Versions, devices and their dtypes, formats and encoders."""
    facts: dict[str, Any] = {
        "omni-gen": __version__,
        "python": sys.version.split()[0],
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "devices": _devices() if devices else None,
        "formats": {form.name: _available(form.name) for form in FORMATS},
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


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _devices() -> list[dict[str, Any]] | str:
    """Asked in another process: torch stays out of this one, and a driver that crashes takes only that one along."""
    result = subprocess.run([sys.executable, "-c", _DEVICES], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return (
            f"torch cannot be asked: {result.stderr.strip().splitlines()[-1] if result.stderr.strip() else 'no output'}"
        )
    devices: list[dict[str, Any]] = json.loads(result.stdout)
    return devices


def _available(name: str) -> str:
    """What encodes the format, or why nothing does."""
    form = next(form for form in FORMATS if form.name == name)
    try:
        return check_available(form) or "yes"
    except UsageError as error:
        return f"no: {error}"
