"""Flags that say how requests are executed, and where settings are read from."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

_PANEL = "Execution"


class Executor(StrEnum):
    """Where pipeline calls run."""

    LOCAL = "local"
    INLINE = "inline"


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Lay the file's values under the command line. Keys are the flags' names, with - or _."""
    if path is None:
        return None
    # Imported when a file is given: --help stays fast.
    from omni_cli.cli.settings import flag_values

    names = {
        option.removeprefix("--").replace("-", "_"): parameter.name or ""
        for parameter in context.command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    context.default_map = {**(context.default_map or {}), **flag_values(path, names)}
    return path


AsyncOutput = Annotated[
    bool,
    typer.Option("--async/--no-async", help="Overlap D2H and packing with the next forward.", rich_help_panel=_PANEL),
]
StepExecution = Annotated[
    bool,
    typer.Option("--step-execution", help="Hand over every denoising step, one by one.", rich_help_panel=_PANEL),
]
Stream = Annotated[
    bool, typer.Option("--stream", help="--step-execution, with a preview of every step.", rich_help_panel=_PANEL)
]
PreviewEvery = Annotated[
    int, typer.Option(min=0, metavar="K", help="A preview after every K-th step; 0: none.", rich_help_panel=_PANEL)
]
ChunkedDecode = Annotated[
    bool,
    typer.Option(
        "--chunked-decode/--no-chunked-decode",
        help="Frames of a video leave as they are decoded, where VAE and format allow it.",
        rich_help_panel=_PANEL,
    ),
]
BatchSize = Annotated[
    str,
    typer.Option(metavar="N|auto", help="Outputs per pipeline call, where the pipeline can.", rich_help_panel=_PANEL),
]
Lookahead = Annotated[
    int,
    typer.Option(
        min=0, help="Requests held back to bring those of one model, LoRA and size together.", rich_help_panel=_PANEL
    ),
]
Workers = Annotated[int, typer.Option(min=1, help="Worker processes, a model each.", rich_help_panel=_PANEL)]
ExecutorOption = Annotated[
    Executor, typer.Option("--executor", help="inline: no worker process, for debugging.", rich_help_panel=_PANEL)
]
DevicePostprocess = Annotated[
    bool | None,
    typer.Option(
        "--device-postprocess/--no-device-postprocess",
        help="Convert to uint8 on the device, before D2H (default: yes).",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
TransportJson = Annotated[
    str | None,
    typer.Option(
        "--video-output-transport", metavar="JSON", help='{"enable_device_postprocess": true}', rich_help_panel=_PANEL
    ),
]
DeployConfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Deploy YAML: stages with video_output_transport.", rich_help_panel=_PANEL),
]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="YAML with values for these flags; the command line wins.",
        is_eager=True,
        callback=_read_config,
        rich_help_panel=_PANEL,
    ),
]
InterpolatorFile = Annotated[
    str | None,
    typer.Option(
        "--interpolator", metavar="FILE.pt", help="TorchScript for --interpolate; else blended.", rich_help_panel=_PANEL
    ),
]
MaxRestarts = Annotated[
    int, typer.Option(min=0, help="Worker deaths in a row before the run ends.", rich_help_panel=_PANEL)
]
ForwardTimeout = Annotated[
    float | None,
    typer.Option(min=0.001, help="Seconds a forward may take before its worker is replaced.", rich_help_panel=_PANEL),
]
MaxInflightBytes = Annotated[
    str, typer.Option(metavar="BYTES", help="Finished output not yet on disk: 1G, 512M.", rich_help_panel=_PANEL)
]
PromptCache = Annotated[
    str,
    typer.Option(metavar="BYTES", help="Prompt embeddings kept on the device; 0: none.", rich_help_panel=_PANEL),
]
Runner = Annotated[
    str,
    typer.Option(metavar="MODULE:CLASS", help="Run this class instead of diffusers.", rich_help_panel=_PANEL),
]
Threads = Annotated[int | None, typer.Option(min=1, help="Intra-op threads of the forward.", rich_help_panel=_PANEL)]
Writers = Annotated[int | None, typer.Option(min=1, help="Encoder threads.", rich_help_panel=_PANEL)]
FailFast = Annotated[
    bool, typer.Option("--fail-fast", help="Stop at the first failed request.", rich_help_panel=_PANEL)
]
KeepInvalid = Annotated[
    bool, typer.Option("--keep-invalid", help="Write outputs that hold NaN or infinity.", rich_help_panel=_PANEL)
]
FailOnConstant = Annotated[
    bool, typer.Option("--fail-on-constant", help="An output of one colour has failed.", rich_help_panel=_PANEL)
]
DIFFUSERS_RUNNER = "omni_cli.worker.runner:DiffusersRunner"
