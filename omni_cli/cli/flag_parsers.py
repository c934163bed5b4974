"""Parsers of flag values: texts to numbers, sizes, pairs and JSON objects.

Each raises UsageError that names the flag.
"""

import math
import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from omni_cli.config import AUTO_BATCH_SIZE, ForwardTimeout
from omni_cli.errors import UsageError
from omni_cli.request import Adapter
from omni_cli.storage.shards import SCHEDULERS, scheduled_shard

_MAX_BATCH = 1024
_MAX_WORKERS = 1024
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_byte_count(text: str, flag: str, least: int = 1) -> int:
    """Parse `1073741824`, `512M` or `1G` (powers of 1024) as bytes. Raises UsageError for less than `least`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else -1
    if size < least:
        raise UsageError(f"{flag} {text}: must be a number of bytes, {least} or more, such as 512M or 1G")
    return size


def parse_batch_size(text: str) -> int:
    """Parse `8` as 8, `auto` as AUTO_BATCH_SIZE. Raises UsageError."""
    if text == "auto":
        return AUTO_BATCH_SIZE
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= _MAX_BATCH:
        raise UsageError(f"--batch-size {text}: must be a number from 1 to {_MAX_BATCH}, or auto")
    return int(text)


def parse_forward_timeout(text: str) -> ForwardTimeout:
    """Parse `auto`, `none`, or seconds above 0. Raises UsageError."""
    if text in ("auto", "none"):
        return "auto" if text == "auto" else None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not (math.isfinite(seconds) and seconds > 0):
        raise UsageError(f"--forward-timeout {text}: must be seconds above 0, auto or none")
    return seconds


def parse_expand(text: str | None) -> int | Literal["all"]:
    """Parse `all`, or `20` as 20; 0 without a text. Raises UsageError."""
    if text is None or text == "all":
        return 0 if text is None else "all"
    if not text.isascii() or not text.isdecimal() or int(text[:9]) < 1:
        raise UsageError(f"--expand {text}: must be all, or a number of combinations to draw, 1 or more")
    return int(text)


def parse_workers(text: str) -> int | Literal["auto"]:
    """Parse `2` as 2; `auto` stays. Raises UsageError."""
    if text == "auto":
        return "auto"
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= _MAX_WORKERS:
        raise UsageError(f"--workers {text}: must be a number from 1 to {_MAX_WORKERS}, or auto")
    return int(text)


def parse_shard(text: str | None) -> tuple[int, int] | None:
    """Parse `2/4` as (2, 4), and `auto` or `auto/4` as what the scheduler of a job array says. Raises UsageError."""
    if text is None:
        return None
    match = re.fullmatch(r"(auto|\d{1,9})(?:/(\d{1,9}))?", text, re.ASCII)
    count = int(match[2]) if match and match[2] else None
    if match and match[1] == "auto" and count != 0:
        return _scheduled(text, count)
    if not match or not count or int(match[1]) > count:
        raise UsageError(f"--shard {text}: must be I/N, such as 1/4, with I from 0 to N - 1 or from 1 to N, or auto")
    return int(match[1]), count


def _scheduled(text: str, count: int | None) -> tuple[int, int]:
    try:
        shard = scheduled_shard(count)
    except ValueError as error:
        raise UsageError(f"--shard {text}: {error}") from error
    if shard is None:
        names = ", ".join(names[0] for names in SCHEDULERS)
        raise UsageError(f"--shard {text}: this is no job of an array: none of {names} is set; give I/N")
    return shard


def parse_adapters(texts: Sequence[str] | None) -> list[Adapter] | None:
    """Parse `style.safetensors:0.8` as an adapter of that weight, 1 by default; None without texts.

    Raises UsageError.
    """
    return [_parse_adapter(text) for text in texts] if texts else None


def _parse_adapter(text: str) -> Adapter:
    path, colon, weight = text.rpartition(":")
    if not colon:
        path, weight = text, "1"
    try:
        value = float(weight)
    except ValueError:
        value = math.nan
    if not path or not math.isfinite(value):
        raise UsageError(f"--lora {text}: must be PATH or PATH:WEIGHT, such as style.safetensors:0.8")
    return Adapter(path=path, weight=value)


def parse_json_object(text: str | None, flag: str) -> dict[str, Any]:
    """Parse a JSON object; an empty one without a text. Raises UsageError."""
    try:
        return {} if text is None else msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise UsageError(f'{flag}: {error}; expected a JSON object such as {{"threshold": 0.1}}') from error


def parse_components(texts: Sequence[str] | None) -> dict[str, str]:
    """Parse `NAME=FILE` texts into files by component. Raises UsageError with every wrong one."""
    files: dict[str, str] = {}
    problems: list[str] = []
    for text in texts or ():
        name, equals, file = text.partition("=")
        if not name or not equals or not file:
            problems.append(f"--component {text}: must be NAME=FILE, such as transformer=model.gguf")
        elif name in files:
            problems.append(f"--component {text}: {name} appears twice")
        files[name] = file
    if problems:
        raise UsageError("\n".join(problems))
    return files
