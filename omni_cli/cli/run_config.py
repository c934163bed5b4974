"""From the values of command-line parameters to a RunConfig."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from omni_cli.cli.flag_parsers import (
    parse_adapters,
    parse_batch_size,
    parse_byte_count,
    parse_components,
    parse_expand,
    parse_forward_timeout,
    parse_json_object,
    parse_shard,
    parse_workers,
)
from omni_cli.cli.options.output_options import changed_policy
from omni_cli.config import (
    EngineConfig,
    LayoutName,
    ModelConfig,
    OutputConfig,
    PromptsConfig,
    RunConfig,
    Tuning,
    VideoOutputTransport,
    check_engine,
)
from omni_cli.errors import UsageError
from omni_cli.export.layouts import LAYOUTS, layout_defaults, name_template
from omni_cli.models.model_files import locate
from omni_cli.models.user_cards import user_cards
from omni_cli.prompts import validate_fields
from omni_cli.prompts.columns import Columns, ExtraColumns, parse_field_flags
from omni_cli.prompts.encoding import check_encoding
from omni_cli.prompts.matrix import parse_matrix_flags
from omni_cli.prompts.reader import ReadOptions
from omni_cli.request import GenerationRequest


def run_config(parameters: Mapping[str, Any]) -> RunConfig:
    """Build the settings of a run from the parameters of `run`, by name. Raises UsageError."""
    if parameters["cards"] is not None:
        user_cards(parameters["cards"])
    model = {
        **_fields_of(ModelConfig, parameters),
        "config": parameters["model_config"],
        "tuning": tuning({**parameters, "compile": parameters["compile_"]}),
    }
    output = {
        **_fields_of(OutputConfig, parameters),
        "output_dir": str(parameters["output_dir"]),
        "changed": changed_policy(parameters["keep_old"], parameters["replace_changed"], parameters["overwrite"]),
        "metadata": not parameters["no_metadata"],
        "disk_check": not parameters["no_disk_check"],
    }
    engine = _engine_config(parameters)
    defaults = {
        name: parameters[name]
        for name in GenerationRequest.__struct_fields__
        if name in parameters and name not in ("seed", "model", "quality")  # those are the run's own
    }
    defaults |= {"lora": parse_adapters(parameters["lora"]), "format": parameters["format_"]}
    output_config = msgspec.convert(output, OutputConfig)
    name_template(output_config)  # raises for flags that contradict each other, before anything is read
    return RunConfig(
        model=msgspec.convert(model, ModelConfig),
        engine=engine,
        output=output_config,
        prompts=prompts_config(parameters),
        defaults=layout_defaults(output_config.layout, request_defaults(**defaults)),
        seed=parameters["seed"],
        limit=parameters["limit"],
        shard=parse_shard(parameters["shard_"]),
        fail_fast=parameters["fail_fast"],
        stop_timeout=parameters["stop_timeout"],
        lookahead=parameters["lookahead"],
    )


def prompts_config(parameters: Mapping[str, Any]) -> PromptsConfig:
    """Return what rows become from the parameters of `run`, by name. Raises UsageError."""
    return PromptsConfig(
        syntax=parameters["prompt_syntax"].value,
        lora_dir=parameters["lora_dir"],
        expand=parse_expand(parameters["expand"]),
        wildcards=parameters["wildcards"],
        matrix=parse_matrix_flags(parameters["matrix"] or ()),
        repeat=parameters["repeat"],
    )


def check_model(config: RunConfig) -> None:
    """Raise ModelLoadError if the run's model is not there, before most of the package is imported.

    Nothing is known of the models of another runner.
    """
    if config.engine.runner == EngineConfig().runner:
        locate(config.model)


def read_options(
    input_format: str | None,
    encoding: str | None,
    fields: Sequence[str] | None,
    extra: ExtraColumns,
    layout: LayoutName | None = None,
) -> ReadOptions:
    """Return how the prompt file is read. Raises UsageError for an unknown field, format or encoding.

    With a `layout`, columns of its lists are known, and the others are kept.
    """
    columns = Columns(parse_field_flags(fields or ()), extra)
    if layout is not None:
        taken = columns.fields.values()
        known = {name: field for name, field in LAYOUTS[layout].fields.items() if field not in taken}
        columns = Columns({**known, **columns.fields}, "keep" if extra == "error" else extra, frozenset(known))
    if encoding is not None:
        check_encoding(encoding)
    return ReadOptions(format=input_format, encoding=encoding, columns=columns)


def _engine_config(parameters: Mapping[str, Any]) -> EngineConfig:
    fields = {
        **_fields_of(EngineConfig, parameters),
        "step_execution": parameters["step_execution"] or parameters["stream"],
        "preview_every": parameters["preview_every"] or int(parameters["stream"]),
        "forward_timeout": parse_forward_timeout(parameters["forward_timeout"]),
        "workers": parse_workers(parameters["workers"]),
        "batch_size": parse_batch_size(parameters["batch_size"]),
        "max_inflight_bytes": parse_byte_count(parameters["max_inflight_bytes"], "--max-inflight-bytes"),
        "prompt_cache_bytes": parse_byte_count(parameters["prompt_cache"], "--prompt-cache", least=0),
        "transport": output_transport(
            parameters["device_postprocess"], parameters["video_output_transport"], parameters["deploy_config"]
        ),
    }
    engine = msgspec.convert(fields, EngineConfig)
    check_engine(engine)
    if parameters["keep_previews"] and not engine.preview_every:
        raise UsageError("--keep-previews: there are no previews to keep; add --preview-every K or --stream")
    return engine


def _fields_of(settings: type[msgspec.Struct], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that have the name of a field of `settings`."""
    return {name: parameters[name] for name in settings.__struct_fields__ if name in parameters}


def tuning(parameters: Mapping[str, Any]) -> Tuning:
    """Build the tuning from the parameters of `run`, by name. Raises UsageError with every wrong value."""
    problems: list[str] = []

    def parse(parser: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
        try:
            return parser(*arguments)
        except UsageError as error:
            problems.append(str(error))
            return {}

    fields = _fields_of(Tuning, parameters)
    for name in ("scheduler_config", "cache_config", "quantization_config"):
        fields[name] = parse(parse_json_object, parameters[name], f"--{name.replace('_', '-')}")
    fields["components"] = parse(parse_components, parameters["component"])
    fields["quantize"] = tuple(part.strip() for part in (parameters["quantize"] or "").split(",") if part.strip())
    if problems:
        raise UsageError("\n".join(problems))
    return msgspec.convert(fields, Tuning)


def request_defaults(**values: Any) -> GenerationRequest:
    """Check flags that stand in for fields of requests by the rules of a prompt file; None is a flag that is not set.

    Raises UsageError with every wrong flag.
    """
    checked = validate_fields({name: value for name, value in values.items() if value is not None})
    if isinstance(checked, GenerationRequest):
        return checked
    flags = (replace(diagnostic, field=f"--{diagnostic.field.replace('_', '-')}") for diagnostic in checked)
    raise UsageError("\n".join(map(str, flags)))


def output_transport(flag: bool | None, text: str | None, deploy_config: Path | None) -> VideoOutputTransport:
    """Return the output transport: the flag overrides the JSON text, the text the deploy file, the file the default.

    Raises UsageError.
    """
    transport = VideoOutputTransport()
    if deploy_config is not None:
        from omni_cli.cli.yaml_settings import read_deploy_transport  # imports yaml

        transport = read_deploy_transport(deploy_config)
    if text is not None:
        try:
            transport = msgspec.json.decode(text, type=VideoOutputTransport)
        except msgspec.MsgspecError as error:
            raise UsageError(
                f"--video-output-transport: {error}; expected JSON such as " + '{"enable_device_postprocess": true}'
            ) from error
    return transport if flag is None else VideoOutputTransport(enable_device_postprocess=flag)
