"""Flags for how requests are executed, and for the files with settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from omni_cli.cli.options import panels
from omni_cli.errors import UsageError

_speed_option = partial(typer.Option, rich_help_panel=panels.SPEED)
_fault_option = partial(typer.Option, rich_help_panel=panels.FAULTS)
_view_option = partial(typer.Option, rich_help_panel=panels.VIEW)
_advanced_option = partial(typer.Option, rich_help_panel=panels.ADVANCED)


class ExecutorChoice(StrEnum):
    """The process that runs pipeline calls."""

    LOCAL = "local"
    INLINE = "inline"


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make the file's values the defaults of the command line."""
    if path is None:
        return None
    # Imported here: --help stays fast.
    from omni_cli.cli.yaml_settings import read_flag_values

    config = read_flag_values(path, context)
    context.default_map = {**(context.default_map or {}), **config.values}
    context.meta[CONFIG_PLACES] = config.places
    return path


@contextmanager
def naming_config_places(context: typer.Context) -> Iterator[None]:
    """Name in a UsageError the line of the `--config` file that has the flag's value."""
    try:
        yield
    except UsageError as error:
        if CONFIG_PLACES not in context.meta:
            raise
        from omni_cli.cli.yaml_settings import name_config_places

        raise name_config_places(error, context, context.meta[CONFIG_PLACES]) from error


CONFIG_PLACES = "omni_gen.config_places"
"""Key of `typer.Context.meta`: where the `--config` file has the value of each parameter."""

AsyncOutput = Annotated[
    bool, _speed_option("--async/--no-async", help="Overlap D2H and packing with the next forward.")
]
StepExecution = Annotated[
    bool, _view_option("--step-execution", help="Report every denoising step before the next one runs.")
]
Stream = Annotated[bool, _view_option("--stream", help="--step-execution with a preview of every step.")]
PreviewEvery = Annotated[int, _view_option(min=0, metavar="K", help="Write a preview after every K-th step; 0: none.")]
ChunkedDecode = Annotated[
    bool,
    _speed_option(
        "--chunked-decode/--no-chunked-decode",
        help="Encode the frames of a video while it is decoded, where VAE and format allow it.",
    ),
]
BatchSize = Annotated[str, _speed_option(metavar="N|auto", help="Outputs per pipeline call, where it can.")]
Lookahead = Annotated[
    int, _speed_option(min=0, help="Requests to buffer so that those of one model, LoRA and size run together.")
]
Workers = Annotated[
    str,
    _speed_option(
        metavar="N|auto", help="Worker processes, each with the model. auto: by devices, cores and requests."
    ),
]
ExecutorOption = Annotated[
    ExecutorChoice, _advanced_option("--executor", help="inline: no worker process, for debugging.")
]
DevicePostprocess = Annotated[
    bool | None,
    _speed_option(
        "--device-postprocess/--no-device-postprocess",
        help="Convert to uint8 on the device, before D2H (default: yes).",
        show_default=False,
    ),
]
TransportJson = Annotated[
    str | None, _advanced_option("--video-output-transport", metavar="JSON", help='{"enable_device_postprocess": true}')
]
DeployConfig = Annotated[
    Path | None, _advanced_option(metavar="FILE", help="Deploy YAML whose stages set video_output_transport.")
]
Config = Annotated[
    Path | None,
    _advanced_option(
        metavar="FILE",
        help="YAML with values for these flags; the command line wins.",
        is_eager=True,
        callback=_read_config,
    ),
]
InterpolatorFile = Annotated[
    str | None,
    _advanced_option("--interpolator", metavar="FILE.pt", help="TorchScript for --interpolate (default: blend)."),
]
MaxRestarts = Annotated[int, _fault_option(min=0, help="Worker deaths in a row before the run ends.")]
ForwardTimeout = Annotated[
    str,
    _fault_option(
        metavar="S|auto|none",
        help="Seconds a forward may take before its worker is replaced; auto: 20 times the slowest alike, 120 or more.",
    ),
]
StopTimeout = Annotated[
    float | None,
    _fault_option(min=0.0, metavar="S", help="Seconds after a stop signal until forwards are killed."),
]
MaxInflightBytes = Annotated[
    str, _speed_option(metavar="BYTES", help="Limit of finished output that is not yet on disk: 1G, 512M.")
]
PromptCache = Annotated[str, _speed_option(metavar="BYTES", help="Prompt embeddings kept on the device; 0: none.")]
Runner = Annotated[str, _advanced_option(metavar="MODULE:CLASS", help="Run this class instead of diffusers.")]
Threads = Annotated[int | None, _speed_option(min=1, help="Intra-op threads of the forward.")]
Writers = Annotated[int | None, _speed_option(min=1, help="Encoder threads.")]
FailFast = Annotated[bool, _fault_option("--fail-fast", help="Stop at the first failed request.")]
KeepInvalid = Annotated[bool, _fault_option("--keep-invalid", help="Write outputs that hold NaN or infinity.")]
FailOnConstant = Annotated[
    bool, _fault_option("--fail-on-constant", help="Fail an output that is one colour in every pixel.")
]
FailOnNsfw = Annotated[
    bool, _fault_option("--fail-on-nsfw", help="Fail an output that the pipeline's safety checker blackened.")
]
DIFFUSERS_RUNNER = "omni_cli.worker.runner:DiffusersRunner"
