"""The prompt file, the part of it to render, and defaults for fields of its requests (flags in kebab-case)."""

from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from omni_cli.cli.options import panels

_option = partial(typer.Option, rich_help_panel=panels.DEFAULTS)

_input_option = partial(typer.Option, rich_help_panel=panels.PROMPTS)


class ExtraColumnsChoice(StrEnum):
    """What becomes of columns and members that are no fields."""

    ERROR = "error"
    IGNORE = "ignore"
    KEEP = "keep"


class PromptSyntaxChoice(StrEnum):
    """Whether the syntax of other tools in prompts is read; auto tells of it."""

    AUTO = "auto"
    PLAIN = "plain"
    A1111 = "a1111"


Prompts = Annotated[
    str,
    typer.Argument(
        metavar="PROMPTS|-", help=".jsonl .json .csv .tsv .txt .yaml, or - for standard input.", show_default=False
    ),
]
OptionalPrompts = Annotated[
    str | None,
    typer.Argument(
        metavar="PROMPTS|-",
        help=".jsonl .json .csv .tsv .txt .yaml, or - for standard input.",
        show_default=False,
        rich_help_panel=panels.PROMPTS,
    ),
]
PromptTexts = Annotated[
    list[str] | None, _input_option("--prompt", metavar="TEXT", help="A prompt instead of a file; can be repeated.")
]
InputFormat = Annotated[
    str | None, _input_option(help="jsonl json csv tsv txt yaml parquet; by default, as the content says.")
]
InputEncoding = Annotated[
    str | None, _input_option(help="utf-8, utf-16, cp1252, ...; by default, as the content says.", metavar="NAME")
]
Field = Annotated[
    list[str] | None,
    _input_option("--field", metavar="FIELD=COLUMN", help="Take a field from this column; can be repeated."),
]
ExtraColumns = Annotated[
    ExtraColumnsChoice, _input_option(help="What is no field: an error, left out, or kept in the row's meta.")
]
PromptSyntaxOption = Annotated[
    PromptSyntaxChoice,
    _input_option("--prompt-syntax", help="Read flags, LoRA tags and weights of A1111, kohya, InvokeAI in prompts."),
]
LoraDir = Annotated[str | None, _input_option(help="Folder of the LoRAs that <lora:NAME:0.8> names.")]
Matrix = Annotated[
    list[str] | None,
    _input_option(
        "--matrix", metavar="FIELD=VALUES", help="Render each row with every value: 3,5,7 or 1..4; can be repeated."
    ),
]
Repeat = Annotated[int, _input_option(metavar="N", help="Render each request N times, with different seeds.")]
Expand = Annotated[
    str | None,
    _input_option(metavar="all|N", help="Read {a|b}, {2$$a|b|c} and __wildcard__: all combinations, or N drawn ones."),
]
WildcardFolder = Annotated[
    str | None, _input_option("--wildcards", help="Folder of NAME.txt files; by default, wildcards beside the prompts.")
]
Seed = Annotated[
    int, _option(min=0, max=2**63 - 1, help="Base seed: requests without a seed derive theirs from it and their id.")
]
NegativePrompt = Annotated[str | None, _option(help="Text to steer away from.")]
Height = Annotated[int | None, _option(help="Pixels.")]
Width = Annotated[int | None, _option(help="Pixels.")]
NumFrames = Annotated[int | None, _option(help="Frames of a clip; 1 makes an image.")]
Seconds = Annotated[float | None, _option(help="Length of a clip: the nearest number of frames.")]
Fps = Annotated[float | None, _option(help="Frames per second.")]
Steps = Annotated[int | None, _option("--num-inference-steps", help="Denoising steps.")]
Guidance = Annotated[float | None, _option("--guidance-scale", help="Scale of the guidance.")]
Guidance2 = Annotated[float | None, _option("--guidance-scale-2", help="Scale of the guidance of a second denoiser.")]
TrueCfg = Annotated[float | None, _option("--true-cfg-scale", help="Scale of true classifier-free guidance.")]
Strength = Annotated[float | None, _option(help="How far to move from the input image, 0 to 1.")]
Image = Annotated[str | None, _option(help="Input image.")]
LastImage = Annotated[str | None, _option(help="Image for the last frame.")]
Mask = Annotated[str | None, _option(help="Mask image.")]
Video = Annotated[str | None, _option(help="Input video.")]
PromptEmbeds = Annotated[str | None, _option(help="Embeddings, .safetensors.")]
Latents = Annotated[str | None, _option(help="Starting noise, .npy or .safetensors.")]
NumOutputs = Annotated[int | None, _option(help="Outputs per prompt.")]
Interpolate = Annotated[int | None, _option(metavar="N", help="Make N frames of each, at N times the fps.")]
Format = Annotated[str | None, _option("--format", help="png jpeg webp avif | mp4 webm mov gif | wav flac | npy ...")]
Limit = Annotated[int | None, _input_option(min=1, help="Only the first N requests.")]
Shard = Annotated[
    str | None,
    _input_option(
        "--shard", metavar="I/N|auto", help="Only part I of N, into one folder with the others; auto: of a job array."
    ),
]
