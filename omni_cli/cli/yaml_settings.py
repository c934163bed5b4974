"""Settings from YAML files: flag values from `--config`, a stage's output transport from `--deploy-config`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import typer
import yaml

from omni_cli.config import VideoOutputTransport
from omni_cli.errors import UsageError
from omni_cli.text import did_you_mean, quote

_TRANSPORT = "video_output_transport"


@dataclass(frozen=True, slots=True)
class FlagValues:
    """The values of a `--config` file by parameter, and where the file has them: `c.yaml:3`."""

    values: Mapping[str, Any]
    places: Mapping[str, str]


def read_flag_values(path: Path, context: typer.Context) -> FlagValues:
    """Read a `--config` file for the command of `context`; its keys are the names of flags, with - or _.

    `async: false` is `no-async: true`. A flag that can be repeated takes a list or one value, one of NAME=VALUE and one
    of JSON also a mapping; null leaves a flag unset. Scalars are read as they are written, as on the command line.
    Raises UsageError with every key that is not a flag or stands twice, and every value that its flag refuses.
    """
    flags = _flags(context)
    values, places, problems = dict[str, Any](), dict[str, str](), list[str]()
    for key, node in _members(path, "--config"):
        place = f"{path}:{key.start_mark.line + 1}"
        name = str(key.value)
        flag = name.replace("-", "_")
        if flag not in flags or flag in ("config", "help", "help_all"):
            advice = did_you_mean(flag, flags, "its keys are the names of flags")
            problems.append(f"--config {place}: unknown key {quote(name)}; {advice}")
            continue
        parameter, is_negative = flags[flag]
        assert parameter.name is not None
        if parameter.name in places:
            problems.append(f"--config {place}: {name} is given already at {places[parameter.name]}; keep one")
            continue
        places[parameter.name] = place
        try:
            value = _flag_value(parameter, node, is_negative)
            if value is not None:
                parameter.process_value(context, value)
                values[parameter.name] = value
        except ValueError as error:
            problems.append(f"--config {place}: {name}: {error}")
        except typer.BadParameter as error:
            problems.append(f"--config {place}: {name}: {_described(node)}: {error.message}")
    if problems:
        raise UsageError("\n".join(problems))
    return FlagValues(values, places)


def name_config_places(error: UsageError, context: typer.Context, places: Mapping[str, str]) -> UsageError:
    """Return `error` with the place of each flag's value that its lines name, where a `--config` file gives it."""
    flags = _flags(context)
    lines = str(error).splitlines()
    for number, line in enumerate(lines):
        match = re.match(r"--([\w-]+)", line)
        parameter, _ = flags.get(match[1].replace("-", "_"), (None, False)) if match else (None, False)
        if parameter is not None and parameter.name in places and _is_from_config(context, parameter.name):
            lines[number] = f"--config {places[parameter.name]}: {line}"
    return UsageError("\n".join(lines))


def _is_from_config(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "DEFAULT_MAP"


def _flags(context: typer.Context) -> dict[str, tuple[Any, bool]]:
    """Return the parameter of each flag of the command, and True for one that turns it off (`no_async`)."""
    flags: dict[str, tuple[Any, bool]] = {}
    for parameter in context.command.params:
        for options, is_negative in ((parameter.opts, False), (parameter.secondary_opts, True)):
            for option in options:
                if option.startswith("--"):
                    flags[option.removeprefix("--").replace("-", "_")] = (parameter, is_negative)
    return flags


def _flag_value(parameter: Any, node: yaml.Node, is_negative: bool) -> Any:
    """Return what the command line would have for the value `node`, None for null. Raises ValueError."""
    if isinstance(node, yaml.ScalarNode) and not node.style and node.value in ("", "~", "null", "Null", "NULL"):
        return None
    if parameter.is_flag:
        word = node.value.lower() if isinstance(node, yaml.ScalarNode) else ""
        if word not in _BOOLEANS:
            raise ValueError(f"expected true or false, got {_described(node)}")
        return _BOOLEANS[word] != is_negative
    if parameter.multiple and "=" in (parameter.metavar or "") and isinstance(node, yaml.MappingNode):
        return [f"{_scalar_text(key)}={_text_or_json(value)}" for key, value in node.value]
    if parameter.multiple:
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        return [_scalar_text(item) for item in items]
    if parameter.metavar == "JSON" and not isinstance(node, yaml.ScalarNode):
        return _text_or_json(node)
    return _scalar_text(node)


def _text_or_json(node: yaml.Node) -> str:
    """Return a scalar as it is written, and any other value as JSON."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    return msgspec.json.encode(_LOADER("").construct_document(node)).decode()


def _scalar_text(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError(f"expected a text or a number, got {_described(node)}")
    return str(node.value)


def _described(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return quote(node.value)
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"


def read_deploy_transport(path: Path) -> VideoOutputTransport:
    """Read the output transport from the one stage of a `--deploy-config` file that sets it; the default if none does.

    Raises UsageError that names the place in the file.
    """
    stages = _read_mapping(path, "--deploy-config").get("stages", [])
    if not isinstance(stages, list) or not all(isinstance(stage, dict) for stage in stages):
        raise UsageError(f"--deploy-config {path}: stages must be a list of mappings")
    numbers = [number for number, stage in enumerate(stages) if _TRANSPORT in stage]
    if len(numbers) > 1:
        raise UsageError(f"--deploy-config {path}: expected one stage with {_TRANSPORT}, got {len(numbers)}")
    for number in numbers:
        try:
            return msgspec.convert(stages[number][_TRANSPORT], VideoOutputTransport)
        except msgspec.ValidationError as error:
            raise UsageError(f"--deploy-config {path}: stages[{number}].{_TRANSPORT}: {error}") from error
    return VideoOutputTransport()


def _read_mapping(path: Path, flag: str) -> dict[str, Any]:
    members = _members(path, flag)
    return {str(key.value): _LOADER("").construct_document(node) for key, node in members}


def _members(path: Path, flag: str) -> list[tuple[yaml.Node, yaml.Node]]:
    """Return the keys and values of the mapping that the file holds. Raises UsageError."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8-sig"), Loader=_LOADER)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{flag} {path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{flag} {path}: {' '.join(str(error).split())}") from error
    if root is None or (isinstance(root, yaml.ScalarNode) and root.value == ""):
        return []
    if not isinstance(root, yaml.MappingNode):
        raise UsageError(f"{flag} {path}:{root.start_mark.line + 1}: expected a mapping, got {_described(root)}")
    return list(root.value)


_LOADER = yaml.SafeLoader

_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
