"""What is asked for: the prompts, which of them, and defaults for requests that do not say (the kebab-case of the fields)."""

from typing import Annotated

import typer

_PANEL = "Defaults for requests"

Prompts = Annotated[
    str,
    typer.Argument(
        metavar="PROMPTS|-", help=".jsonl .json .csv .tsv .txt, or - for standard input.", show_default=False
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        min=0,
        max=2**63 - 1,
        help="Base seed: requests without a seed derive theirs from it and their id.",
        rich_help_panel=_PANEL,
    ),
]
NegativePrompt = Annotated[str | None, typer.Option(rich_help_panel=_PANEL)]
Height = Annotated[int | None, typer.Option(help="Pixels.", rich_help_panel=_PANEL)]
Width = Annotated[int | None, typer.Option(help="Pixels.", rich_help_panel=_PANEL)]
NumFrames = Annotated[int | None, typer.Option(help="Frames of a clip; 1 makes an image.", rich_help_panel=_PANEL)]
Fps = Annotated[float | None, typer.Option(help="Frames per second.", rich_help_panel=_PANEL)]
Steps = Annotated[int | None, typer.Option("--num-inference-steps", rich_help_panel=_PANEL)]
Guidance = Annotated[float | None, typer.Option("--guidance-scale", rich_help_panel=_PANEL)]
Guidance2 = Annotated[float | None, typer.Option("--guidance-scale-2", rich_help_panel=_PANEL)]
TrueCfg = Annotated[float | None, typer.Option("--true-cfg-scale", rich_help_panel=_PANEL)]
Strength = Annotated[float | None, typer.Option(help="0 to 1.", rich_help_panel=_PANEL)]
Image = Annotated[str | None, typer.Option(help="Input image.", rich_help_panel=_PANEL)]
LastImage = Annotated[str | None, typer.Option(help="Last frame.", rich_help_panel=_PANEL)]
Mask = Annotated[str | None, typer.Option(help="Mask image.", rich_help_panel=_PANEL)]
Video = Annotated[str | None, typer.Option(help="Input video.", rich_help_panel=_PANEL)]
PromptEmbeds = Annotated[str | None, typer.Option(help="Embeddings, .safetensors.", rich_help_panel=_PANEL)]
Latents = Annotated[str | None, typer.Option(help="Starting noise, .npy or .safetensors.", rich_help_panel=_PANEL)]
NumOutputs = Annotated[int | None, typer.Option(help="Outputs per prompt.", rich_help_panel=_PANEL)]
Interpolate = Annotated[
    int | None, typer.Option(metavar="N", help="Make N frames, and N times the fps, of each.", rich_help_panel=_PANEL)
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="png jpeg webp avif | mp4 webm mov gif | wav flac | npy ...", rich_help_panel=_PANEL),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first N requests.", rich_help_panel=_PANEL)]
Shard = Annotated[
    str | None,
    typer.Option("--shard", metavar="I/N", help="Only the I-th of N parts (1/N to N/N).", rich_help_panel=_PANEL),
]
