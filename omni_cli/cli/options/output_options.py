"""Flags for the files that a run writes, and for what it shows meanwhile."""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from omni_cli.cli.options import panels
from omni_cli.errors import UsageError

_option = partial(typer.Option, rich_help_panel=panels.OUTPUT)
_view_option = partial(typer.Option, rich_help_panel=panels.VIEW)
_fault_option = partial(typer.Option, rich_help_panel=panels.FAULTS)

OUTPUT_DIR = Path("outputs")


class LayoutChoice(StrEnum):
    """What files are called, by who reads them."""

    VBENCH = "vbench"
    GENEVAL = "geneval"
    HF_DATASET = "hf-dataset"


class ResultsChoice(StrEnum):
    """The API that has a result file of this form."""

    OPENAI = "openai"
    OPENAI_BASE64 = "openai-base64"


class Encoder(StrEnum):
    """The program or library that encodes video."""

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


def print_mode(choice: Print | None) -> Literal["paths", "json"] | None:
    """Return the value of `--print` in the type of `open_view`."""
    if choice is None:
        return None
    return "paths" if choice is Print.PATHS else "json"


def changed_policy(keep_old: bool, replace_changed: bool, overwrite: bool) -> Literal["refuse", "keep", "replace"]:
    """Return what becomes of finished requests that have changed. Raises UsageError for flags that contradict."""
    if keep_old + replace_changed + overwrite > 1:
        raise UsageError("--keep-old, --replace-changed and --overwrite contradict each other: give one of them")
    return "keep" if keep_old else "replace" if replace_changed else "refuse"


OutputDir = Annotated[Path, _option("-o", "--output-dir", help="Folder of files and manifest.")]
InputDirs = Annotated[
    list[Path] | None,
    typer.Option("--input-dir", metavar="DIR", help="Search this folder for inputs that have moved; can be repeated."),
]
Overwrite = Annotated[bool, _option("--overwrite/--resume", help="Render everything again, or only what is missing.")]
KeepOld = Annotated[bool, _option("--keep-old", help="Leave out requests that are done and have changed since.")]
ReplaceChanged = Annotated[
    bool, _option("--replace-changed", help="Render requests that are done and have changed since again.")
]
NameTemplate = Annotated[str, _option(help="File name: {id} {index:05d} {seed} ...")]
Layout = Annotated[
    LayoutChoice | None, _option("--layout", help="Names, folders and metadata that an evaluator expects.")
]
Results = Annotated[
    ResultsChoice | None,
    _option("--results", help="Write results.jsonl of that API, with paths of the files, or with base64."),
]
KeepPartial = Annotated[
    bool,
    _option(
        "--keep-partial",
        help="At a stop, end running videos at their last frame so far and keep them as NAME.partial.mp4.",
    ),
]
NoMetadata = Annotated[bool, _option("--no-metadata", help="Do not embed the request.")]
PngCompression = Annotated[int, _option(min=0, max=9, help="PNG level: 0 stored, 1 fast, 9 small.")]
Quality = Annotated[int, _option(min=1, max=100, help="Quality of JPEG, WebP and AVIF.")]
Codec = Annotated[
    str | None, _option(help="Video codec: h264 h265 av1 vp9 prores ffv1 h264_nvenc hevc_nvenc av1_nvenc.")
]
PixFmt = Annotated[str | None, _option(help="Pixel format: yuv420p, yuv444p, yuv420p10le, ...")]
Crf = Annotated[int, _option(min=0, max=63, help="Video quality; smaller is better.")]
EncoderPreset = Annotated[str, _option(help="A preset of x264, for every codec.")]
EncoderOption = Annotated[Encoder, _option("--encoder", help="Video encoder; ffmpeg: the program instead of PyAV.")]
KeepPreviews = Annotated[bool, _view_option("--keep-previews", help="Do not remove a preview when its output is done.")]
NoDiskCheck = Annotated[bool, _fault_option("--no-disk-check", help="Start even if the disk looks too small.")]
DiskWait = Annotated[float, _fault_option(min=0, help="Seconds to wait for a full or failing disk.")]

ProgressOption = Annotated[Progress, _view_option("--progress", help="How to show progress on stderr.")]
PrintOption = Annotated[
    Print | None, _view_option("--print", help="What to write to stdout for each finished request.")
]
DryRun = Annotated[bool, _view_option("--dry-run", help="Show the plan; load and write nothing.")]
Trace = Annotated[Path | None, _view_option(metavar="FILE", help="Write the timeline as a Chrome trace.")]
Report = Annotated[bool, _view_option("--report", help="Write an HTML report of the output folder at the end.")]
ReportLive = Annotated[bool, _view_option("--report-live", help="Write it during the run, too, in another process.")]
LogFile = Annotated[Path | None, _view_option(metavar="FILE", help="Append the log here.")]
