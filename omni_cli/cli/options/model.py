"""Flags that say which model, and how it is loaded."""

from typing import Annotated

import typer

_PANEL = "Model"

Model = Annotated[
    str,
    typer.Option("-m", "--model", help="demo, a folder, a hub id, or a .safetensors file.", rich_help_panel=_PANEL),
]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub model.", rich_help_panel=_PANEL)]
Variant = Annotated[str | None, typer.Option(help="Weight variant, for example fp16.", rich_help_panel=_PANEL)]
Pipeline = Annotated[
    str | None, typer.Option(help="Pipeline class, where the model does not say it.", rich_help_panel=_PANEL)
]
ModelConfigDir = Annotated[
    str | None,
    typer.Option("--model-config", help="Folder or hub id with the configs of a single file.", rich_help_panel=_PANEL),
]
Dtype = Annotated[
    str, typer.Option(help="auto (bfloat16 on accelerators, float32 on CPU), or a torch dtype.", rich_help_panel=_PANEL)
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, xpu, npu, mps, ...", rich_help_panel=_PANEL)]
CustomPipeline = Annotated[
    str | None,
    typer.Option(help="Python file (or folder with a pipeline.py) with the pipeline class.", rich_help_panel=_PANEL),
]
Cards = Annotated[
    str | None, typer.Option(help="TOML file with cards of pipelines, over those built in.", rich_help_panel=_PANEL)
]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.", rich_help_panel=_PANEL)
]
