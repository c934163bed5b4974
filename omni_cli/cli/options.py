"""The flags of `run`, as annotated types. Flags that give defaults for requests are the kebab-case of the fields."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

_MODEL, _ENGINE, _DEFAULTS, _OUTPUT, _VIEW = "Model", "Execution", "Defaults for requests", "Output", "View"


class Executor(StrEnum):
    """Where pipeline calls run."""

    LOCAL = "local"
    INLINE = "inline"


class Encoder(StrEnum):
    """What encodes video."""

    AUTO = "auto"
    PYAV = "pyav"
    FFMPEG = "ffmpeg"


class Progress(StrEnum):
    """How progress is shown on stderr."""

    AUTO = "auto"
    RICH = "rich"
    PLAIN = "plain"
    JSON = "json"
    NONE = "none"


class Print(StrEnum):
    """What is written to stdout for each finished request."""

    PATHS = "paths"
    JSON = "json"

    @property
    def mode(self) -> Literal["paths", "json"]:
        """The value, as the type that the view takes."""
        return "paths" if self is Print.PATHS else "json"


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


Prompts = Annotated[
    str,
    typer.Argument(
        metavar="PROMPTS|-", help=".jsonl .json .csv .tsv .txt, or - for standard input.", show_default=False
    ),
]
Model = Annotated[
    str,
    typer.Option("-m", "--model", help="demo, a folder, a hub id, or a .safetensors file.", rich_help_panel=_MODEL),
]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub model.", rich_help_panel=_MODEL)]
Variant = Annotated[str | None, typer.Option(help="Weight variant, for example fp16.", rich_help_panel=_MODEL)]
Pipeline = Annotated[
    str | None, typer.Option(help="Pipeline class, where the model does not say it.", rich_help_panel=_MODEL)
]
ModelConfigDir = Annotated[
    str | None,
    typer.Option("--model-config", help="Folder or hub id with the configs of a single file.", rich_help_panel=_MODEL),
]
Dtype = Annotated[
    str, typer.Option(help="auto (bfloat16 on accelerators, float32 on CPU), or a torch dtype.", rich_help_panel=_MODEL)
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, xpu, npu, mps, ...", rich_help_panel=_MODEL)]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.", rich_help_panel=_MODEL)
]

AsyncOutput = Annotated[
    bool,
    typer.Option("--async/--no-async", help="Overlap D2H and packing with the next forward.", rich_help_panel=_ENGINE),
]
BatchSize = Annotated[
    str,
    typer.Option(metavar="N|auto", help="Outputs per pipeline call, where the pipeline can.", rich_help_panel=_ENGINE),
]
Workers = Annotated[int, typer.Option(min=1, help="Worker processes, a model each.", rich_help_panel=_ENGINE)]
ExecutorOption = Annotated[
    Executor, typer.Option("--executor", help="inline: no worker process, for debugging.", rich_help_panel=_ENGINE)
]
DevicePostprocess = Annotated[
    bool | None,
    typer.Option(
        "--device-postprocess/--no-device-postprocess",
        help="Convert to uint8 on the device, before D2H (default: yes).",
        show_default=False,
        rich_help_panel=_ENGINE,
    ),
]
TransportJson = Annotated[
    str | None,
    typer.Option(
        "--video-output-transport", metavar="JSON", help='{"enable_device_postprocess": true}', rich_help_panel=_ENGINE
    ),
]
DeployConfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Deploy YAML: stages with video_output_transport.", rich_help_panel=_ENGINE),
]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="YAML with values for these flags; the command line wins.",
        is_eager=True,
        callback=_read_config,
        rich_help_panel=_ENGINE,
    ),
]
MaxRestarts = Annotated[
    int, typer.Option(min=0, help="Worker deaths in a row before the run ends.", rich_help_panel=_ENGINE)
]
ForwardTimeout = Annotated[
    float | None,
    typer.Option(min=0.001, help="Seconds a forward may take before its worker is replaced.", rich_help_panel=_ENGINE),
]
MaxInflightBytes = Annotated[
    str, typer.Option(metavar="BYTES", help="Finished output not yet on disk: 1G, 512M.", rich_help_panel=_ENGINE)
]
Runner = Annotated[
    str,
    typer.Option(metavar="MODULE:CLASS", help="Run this class instead of diffusers.", rich_help_panel=_ENGINE),
]
Threads = Annotated[int | None, typer.Option(min=1, help="Intra-op threads of the forward.", rich_help_panel=_ENGINE)]
Writers = Annotated[int | None, typer.Option(min=1, help="Encoder threads.", rich_help_panel=_ENGINE)]
FailFast = Annotated[
    bool, typer.Option("--fail-fast", help="Stop at the first failed request.", rich_help_panel=_ENGINE)
]
KeepInvalid = Annotated[
    bool, typer.Option("--keep-invalid", help="Write outputs that hold NaN or infinity.", rich_help_panel=_ENGINE)
]
FailOnConstant = Annotated[
    bool, typer.Option("--fail-on-constant", help="An output of one colour has failed.", rich_help_panel=_ENGINE)
]

Seed = Annotated[
    int,
    typer.Option(
        min=0,
        max=2**63 - 1,
        help="Base seed: requests without a seed derive theirs from it and their id.",
        rich_help_panel=_DEFAULTS,
    ),
]
NegativePrompt = Annotated[str | None, typer.Option(rich_help_panel=_DEFAULTS)]
Height = Annotated[int | None, typer.Option(help="Pixels.", rich_help_panel=_DEFAULTS)]
Width = Annotated[int | None, typer.Option(help="Pixels.", rich_help_panel=_DEFAULTS)]
NumFrames = Annotated[int | None, typer.Option(help="Frames of a clip; 1 makes an image.", rich_help_panel=_DEFAULTS)]
Fps = Annotated[float | None, typer.Option(help="Frames per second.", rich_help_panel=_DEFAULTS)]
Steps = Annotated[int | None, typer.Option("--num-inference-steps", rich_help_panel=_DEFAULTS)]
Guidance = Annotated[float | None, typer.Option("--guidance-scale", rich_help_panel=_DEFAULTS)]
Guidance2 = Annotated[float | None, typer.Option("--guidance-scale-2", rich_help_panel=_DEFAULTS)]
TrueCfg = Annotated[float | None, typer.Option("--true-cfg-scale", rich_help_panel=_DEFAULTS)]
Strength = Annotated[float | None, typer.Option(help="0 to 1.", rich_help_panel=_DEFAULTS)]
Image = Annotated[str | None, typer.Option(help="Input image.", rich_help_panel=_DEFAULTS)]
LastImage = Annotated[str | None, typer.Option(help="Last frame.", rich_help_panel=_DEFAULTS)]
Mask = Annotated[str | None, typer.Option(help="Mask image.", rich_help_panel=_DEFAULTS)]
Video = Annotated[str | None, typer.Option(help="Input video.", rich_help_panel=_DEFAULTS)]
NumOutputs = Annotated[int | None, typer.Option(help="Outputs per prompt.", rich_help_panel=_DEFAULTS)]
Format = Annotated[
    str | None, typer.Option("--format", help="png jpeg webp | mp4 webm gif | npy.", rich_help_panel=_DEFAULTS)
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first N requests.", rich_help_panel=_DEFAULTS)]
Shard = Annotated[
    str | None,
    typer.Option("--shard", metavar="I/N", help="Only the I-th of N parts (1/N to N/N).", rich_help_panel=_DEFAULTS),
]

OutputDir = Annotated[
    Path, typer.Option("-o", "--output-dir", help="Folder of files and manifest.", rich_help_panel=_OUTPUT)
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite/--resume", help="Render all again, or only what is missing.", rich_help_panel=_OUTPUT),
]
NameTemplate = Annotated[str, typer.Option(help="File name: {id} {index:05d} {seed} ...", rich_help_panel=_OUTPUT)]
NoMetadata = Annotated[bool, typer.Option("--no-metadata", help="Do not embed the request.", rich_help_panel=_OUTPUT)]
PngCompression = Annotated[int, typer.Option(min=0, max=9, help="0 stored, 1 fast, 9 small.", rich_help_panel=_OUTPUT)]
Quality = Annotated[int, typer.Option(min=1, max=100, help="JPEG and WebP.", rich_help_panel=_OUTPUT)]
Crf = Annotated[int, typer.Option(min=0, max=63, help="Video quality; smaller is better.", rich_help_panel=_OUTPUT)]
EncoderPreset = Annotated[str, typer.Option(help="x264 preset.", rich_help_panel=_OUTPUT)]
EncoderOption = Annotated[
    Encoder, typer.Option("--encoder", help="ffmpeg: the program instead of PyAV.", rich_help_panel=_OUTPUT)
]

ProgressOption = Annotated[Progress, typer.Option("--progress", help="On stderr.", rich_help_panel=_VIEW)]
PrintOption = Annotated[
    Print | None, typer.Option("--print", help="On stdout, for each finished request.", rich_help_panel=_VIEW)
]
Trace = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the timeline as a Chrome trace.", rich_help_panel=_VIEW)
]
LogFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Append the log here.", rich_help_panel=_VIEW)]

OUTPUT_DIR = Path("outputs")
DIFFUSERS_RUNNER = "omni_cli.worker.runner:DiffusersRunner"
