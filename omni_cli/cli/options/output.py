"""Flags that say where and how files are written."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

_PANEL = "Output"


class Encoder(StrEnum):
    """What encodes video."""

    AUTO = "auto"
    PYAV = "pyav"
    FFMPEG = "ffmpeg"


OutputDir = Annotated[
    Path, typer.Option("-o", "--output-dir", help="Folder of files and manifest.", rich_help_panel=_PANEL)
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite/--resume", help="Render all again, or only what is missing.", rich_help_panel=_PANEL),
]
NameTemplate = Annotated[str, typer.Option(help="File name: {id} {index:05d} {seed} ...", rich_help_panel=_PANEL)]
KeepPartial = Annotated[
    bool,
    typer.Option(
        "--keep-partial",
        help="At a stop, end videos at the frame they are at and keep that as NAME.partial.mp4.",
        rich_help_panel=_PANEL,
    ),
]
NoMetadata = Annotated[bool, typer.Option("--no-metadata", help="Do not embed the request.", rich_help_panel=_PANEL)]
PngCompression = Annotated[int, typer.Option(min=0, max=9, help="0 stored, 1 fast, 9 small.", rich_help_panel=_PANEL)]
Quality = Annotated[int, typer.Option(min=1, max=100, help="JPEG, WebP and AVIF.", rich_help_panel=_PANEL)]
Codec = Annotated[
    str | None,
    typer.Option(help="h264 h265 av1 vp9 prores ffv1 h264_nvenc hevc_nvenc av1_nvenc.", rich_help_panel=_PANEL),
]
PixFmt = Annotated[str | None, typer.Option(help="yuv420p, yuv444p, yuv420p10le, ...", rich_help_panel=_PANEL)]
Crf = Annotated[int, typer.Option(min=0, max=63, help="Video quality; smaller is better.", rich_help_panel=_PANEL)]
EncoderPreset = Annotated[str, typer.Option(help="x264's words, for every codec.", rich_help_panel=_PANEL)]
EncoderOption = Annotated[
    Encoder, typer.Option("--encoder", help="ffmpeg: the program instead of PyAV.", rich_help_panel=_PANEL)
]
KeepPreviews = Annotated[
    bool,
    typer.Option("--keep-previews", help="Do not remove a preview when its output is done.", rich_help_panel=_PANEL),
]
NoDiskCheck = Annotated[
    bool, typer.Option("--no-disk-check", help="Start although the disk looks too small.", rich_help_panel=_PANEL)
]
DiskWait = Annotated[
    float, typer.Option(min=0, help="Seconds that a full or failing disk is waited for.", rich_help_panel=_PANEL)
]

OUTPUT_DIR = Path("outputs")
