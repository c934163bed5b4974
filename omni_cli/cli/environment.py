"""The facts that `omni-gen info` shows: package versions, devices, encoders."""

import importlib.metadata
import json
import math
import subprocess
import sys
from typing import Any

from omni_cli.batch.worker_choice import choose_on_cpu, choose_on_devices
from omni_cli.config import EngineConfig, OutputConfig
from omni_cli.errors import UsageError
from omni_cli.writers.codecs import CODECS, PIXEL_FORMATS, Codec, find_encoder, pixel_formats
from omni_cli.writers.formats import FORMATS, Format, find_backend

_DEVICES = """
import json, torch
from omni_cli import platforms
print(json.dumps([
    {"type": p.torch_type, "count": p.device_count(), "dtype": str(p.default_dtype()).removeprefix("torch.")}
    for p in platforms.available()
]))
"""


def package_version(name: str) -> str:
    """Return the installed version of a package, or "not installed"."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def find_devices() -> list[dict[str, Any]] | str:
    """Return type, count and default dtype of every device, or why torch cannot tell.

    Runs in another process: torch stays out of this one, and a crashing driver does not end it.
    """
    result = subprocess.run([sys.executable, "-c", _DEVICES], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines()
        return f"torch failed: {lines[-1] if lines else 'no output'}"
    devices: list[dict[str, Any]] = json.loads(result.stdout)
    return devices


def find_workers(devices: list[dict[str, Any]] | str | None) -> dict[str, str]:
    """Return what `--workers auto` chooses on this machine, by device and size of requests.

    `devices` are those of `find_devices`. How many of the workers start depends on the requests that are missing.
    """
    engine, choices = EngineConfig(), {}
    for device in devices if isinstance(devices, list) else []:
        if device["type"] != "cpu":
            choice = choose_on_devices(device["type"], device["count"])
            choices[device["type"]] = f"at most {choice.describe(choice.limit)}"
    for size, work in (("small", 0.0), ("large", math.inf)):
        choice = choose_on_cpu(engine, work, 0)
        choices[f"cpu, {size} requests"] = f"at most {choice.describe(choice.limit)}"
    return choices


def find_formats() -> dict[str, str]:
    """Return, for each format, what encodes it or why nothing does."""
    return {form.name: _format_encoder(form) for form in FORMATS}


def find_codecs() -> dict[str, str]:
    """Return, for each value of `--codec`, what encodes it or why nothing does."""
    return {codec.name: _codec_encoder(codec) for codec in CODECS if codec.name != "gif"}


def _codec_encoder(codec: Codec) -> str:
    try:
        choice = find_encoder("", codec, (codec.name,), OutputConfig())
    except UsageError as error:
        return f"no: {error}"
    layouts = [name for name in PIXEL_FORMATS if name in pixel_formats(choice.encoder, choice.backend)]
    return f"{choice.encoder} ({choice.backend}): {', '.join(layouts)}"


def _format_encoder(form: Format) -> str:
    try:
        return find_backend(form)
    except UsageError as error:
        return f"no: {error}"
