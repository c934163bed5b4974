"""From files and texts of the command line to settings: deploy YAML, JSON objects, sizes with a unit, shards."""

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from omni_cli.cli.defaults import checked_defaults
from omni_cli.cli.tuning import adapters, tuning
from omni_cli.config import (
    AUTO_BATCH_SIZE,
    EngineConfig,
    ModelConfig,
    OutputConfig,
    RunConfig,
    VideoOutputTransport,
    check_engine,
)
from omni_cli.errors import UsageError
from omni_cli.models.own import own_cards
from omni_cli.request import GenerationRequest

_TRANSPORT = "video_output_transport"
_MAX_BATCH = 1024
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def run_config(given: Mapping[str, Any]) -> RunConfig:
    """The settings of a run from the values of `run`'s parameters, by name. Raises UsageError."""
    if given["cards"] is not None:
        own_cards(given["cards"])
    model = {
        **_picked(given, ModelConfig),
        "config": given["model_config"],
        "tuning": tuning({**given, "compile": given["compile_"]}),
    }
    engine = {
        **_picked(given, EngineConfig),
        "step_execution": given["step_execution"] or given["stream"],
        "preview_every": given["preview_every"] or int(given["stream"]),
        "batch_size": batch_size(given["batch_size"]),
        "max_inflight_bytes": byte_count(given["max_inflight_bytes"], "--max-inflight-bytes"),
        "prompt_cache_bytes": byte_count(given["prompt_cache"], "--prompt-cache", least=0),
        "transport": transport(given["device_postprocess"], given["video_output_transport"], given["deploy_config"]),
    }
    output = {
        **_picked(given, OutputConfig),
        "output_dir": str(given["output_dir"]),
        "metadata": not given["no_metadata"],
        "disk_check": not given["no_disk_check"],
    }
    checked = msgspec.convert(engine, EngineConfig)
    check_engine(checked)
    if given["keep_previews"] and not checked.preview_every:
        raise UsageError("--keep-previews keeps nothing without --preview-every K (or --stream)")
    apart = ("seed", "model")  # the run's own, not defaults of fields
    fields = {name: given[name] for name in GenerationRequest.__struct_fields__ if name in given and name not in apart}
    fields["lora"] = adapters(given["lora"])
    return RunConfig(
        model=msgspec.convert(model, ModelConfig),
        engine=checked,
        output=msgspec.convert(output, OutputConfig),
        defaults=checked_defaults(**fields, format=given["format_"]),
        seed=given["seed"],
        limit=given["limit"],
        shard=shard(given["shard_"]),
        fail_fast=given["fail_fast"],
        lookahead=given["lookahead"],
    )


def _picked(given: Mapping[str, Any], settings: type[msgspec.Struct]) -> dict[str, Any]:
    """The values whose parameter is named like a field."""
    return {name: given[name] for name in settings.__struct_fields__ if name in given}


def transport(flag: bool | None, text: str | None, deploy_config: Path | None) -> VideoOutputTransport:
    """The output transport: the flag wins over the JSON text, the text over the deploy file, the file over the default."""
    chosen = VideoOutputTransport() if deploy_config is None else _from_deploy(deploy_config)
    if text is not None:
        try:
            chosen = msgspec.json.decode(text, type=VideoOutputTransport)
        except msgspec.MsgspecError as error:
            raise UsageError(
                f"--video-output-transport: {error}; it takes JSON such as " + '{"enable_device_postprocess": true}'
            ) from error
    return chosen if flag is None else VideoOutputTransport(enable_device_postprocess=flag)


def _from_deploy(path: Path) -> VideoOutputTransport:
    """The transport of the one stage of a deploy file that has it; the default if none has."""
    content = read_yaml(path, "--deploy-config")
    stages = content.get("stages", [])
    if not isinstance(stages, list) or not all(isinstance(stage, dict) for stage in stages):
        raise UsageError(f"--deploy-config {path}: stages must be a list of mappings")
    found = [(number, stage[_TRANSPORT]) for number, stage in enumerate(stages) if _TRANSPORT in stage]
    if len(found) > 1:
        raise UsageError(f"--deploy-config {path}: {len(found)} stages have {_TRANSPORT}; one model has one")
    for number, value in found:
        try:
            return msgspec.convert(value, VideoOutputTransport)
        except msgspec.ValidationError as error:
            raise UsageError(f"--deploy-config {path}: stages[{number}].{_TRANSPORT}: {error}") from error
    return VideoOutputTransport()


def flag_values(path: Path, names: Mapping[str, str]) -> dict[str, Any]:
    """The values of a `--config` file by parameter; `names` maps flags (with _) to parameters.

    `async: false` is `--no-async`. Raises UsageError with every key that is no flag, and the nearest that is.
    """
    values, unknown = dict[str, Any](), list[str]()
    for key, value in read_yaml(path, "--config").items():
        flag = str(key).replace("-", "_")
        if flag not in names or flag in ("config", "help"):
            near = difflib.get_close_matches(flag, names, 1)
            unknown.append(f"--config {path}: unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        else:
            # A flag that takes JSON may be written out as a mapping here.
            values[names[flag]] = msgspec.json.encode(value).decode() if isinstance(value, dict) else value
    if unknown:
        raise UsageError("\n".join(unknown))
    return values


def read_yaml(path: Path, flag: str) -> dict[str, Any]:
    """A YAML mapping; UsageError with the place of the fault."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{flag} {path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{flag} {path}: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"{flag} {path}: must be a mapping")
    return content


def byte_count(text: str, flag: str, least: int = 1) -> int:
    """`1073741824`, `512M` or `1G` as a number of bytes (powers of 1024), `least` or more."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else -1
    if size < least:
        raise UsageError(f"{flag} {text}: must be a number of bytes, {least} or more, such as 512M or 1G")
    return size


def batch_size(text: str) -> int:
    """`8` as 8, `auto` as 0."""
    if text == "auto":
        return AUTO_BATCH_SIZE
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= _MAX_BATCH:
        raise UsageError(f"--batch-size {text}: must be a number from 1 to {_MAX_BATCH}, or auto")
    return int(text)


def shard(text: str | None) -> tuple[int, int] | None:
    """`2/4` as (2, 4)."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"--shard {text}: must be I/N with 1 <= I <= N, such as 1/4")
    return int(match[1]), int(match[2])
