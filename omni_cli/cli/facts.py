"""The facts that `omni-gen info` shows."""

import importlib.metadata
import json
import subprocess
import sys
from typing import Any

from omni_cli.config import OutputConfig
from omni_cli.errors import UsageError
from omni_cli.writers.codecs import CODECS, PIXEL_FORMATS, Codec, find_encoder, pixel_formats
from omni_cli.writers.formats import FORMATS, Format, check_available

_DEVICES = """
import json, torch
from omni_cli import platforms
print(json.dumps([
    {"type": p.torch_type, "count": p.device_count(), "dtype": str(p.default_dtype()).removeprefix("torch.")}
    for p in platforms.available()
]))
"""


def version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def devices_here() -> list[dict[str, Any]] | str:
    """Asked in another process: torch stays out of this one, and a driver that crashes takes only that one along."""
    result = subprocess.run([sys.executable, "-c", _DEVICES], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return (
            f"torch cannot be asked: {result.stderr.strip().splitlines()[-1] if result.stderr.strip() else 'no output'}"
        )
    devices: list[dict[str, Any]] = json.loads(result.stdout)
    return devices


def available() -> dict[str, str]:
    """For each format: what encodes it, or why nothing does."""
    return {form.name: _encoder(form) for form in FORMATS}


def codecs_here() -> dict[str, str]:
    """For each word of `--codec`: what encodes it, or why nothing does."""
    return {codec.name: _codec(codec) for codec in CODECS if codec.name != "gif"}


def _codec(codec: Codec) -> str:
    try:
        choice = find_encoder("", codec, (codec.name,), OutputConfig())
    except UsageError as error:
        return f"no: {error}"
    layouts = [name for name in PIXEL_FORMATS if name in pixel_formats(choice.encoder, choice.by)]
    return f"{choice.encoder} ({choice.by}): {', '.join(layouts)}"


def _encoder(form: Format) -> str:
    try:
        return check_available(form)
    except UsageError as error:
        return f"no: {error}"
