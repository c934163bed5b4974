"""Flags that change a pipeline after its files: scheduler, caches, quantization, offload. Names are those of diffusers."""

from enum import StrEnum
from typing import Annotated

import typer

_PANEL = "Tuning"


class Offload(StrEnum):
    """Where weights wait for their turn."""

    NONE = "none"
    MODEL = "model"
    SEQUENTIAL = "sequential"
    GROUP = "group"


class Cache(StrEnum):
    """Step caches of diffusers."""

    FIRST_BLOCK = "first-block"
    FASTER = "faster"
    MAG = "mag"
    PYRAMID = "pyramid-attention-broadcast"
    SEA = "sea"
    TAYLORSEER = "taylorseer"
    TEXT_KV = "text-kv"


Scheduler = Annotated[
    str | None, typer.Option(help="Scheduler class, with the model's own configuration.", rich_help_panel=_PANEL)
]
SchedulerConfig = Annotated[
    str | None, typer.Option(metavar="JSON", help="Values laid over that configuration.", rich_help_panel=_PANEL)
]
FlowShift = Annotated[float | None, typer.Option(help="Shift of the flow's sigmas.", rich_help_panel=_PANEL)]
Lora = Annotated[
    list[str] | None,
    typer.Option(
        "--lora", metavar="PATH[:WEIGHT]", help="For requests without lora; can be repeated.", rich_help_panel=_PANEL
    ),
]
CacheOption = Annotated[
    Cache | None, typer.Option("--cache", help="Reuse work of earlier steps.", rich_help_panel=_PANEL)
]
CacheConfig = Annotated[
    str | None, typer.Option(metavar="JSON", help="Fields of the cache's config class.", rich_help_panel=_PANEL)
]
Quantization = Annotated[
    str | None,
    typer.Option(help="bitsandbytes_4bit, bitsandbytes_8bit, quanto or torchao.", rich_help_panel=_PANEL),
]
QuantizationConfig = Annotated[
    str | None, typer.Option(metavar="JSON", help="Keywords of that backend.", rich_help_panel=_PANEL)
]
Quantize = Annotated[
    str | None,
    typer.Option(metavar="COMPONENTS", help="What to quantize (default: the denoisers).", rich_help_panel=_PANEL),
]
Component = Annotated[
    list[str] | None,
    typer.Option(
        "--component",
        metavar="NAME=FILE",
        help="A component from a .safetensors or .gguf file; can be repeated.",
        rich_help_panel=_PANEL,
    ),
]
LayerwiseCasting = Annotated[
    str | None, typer.Option(metavar="DTYPE", help="Store weights as, say, float8_e4m3fn.", rich_help_panel=_PANEL)
]
OffloadOption = Annotated[
    Offload, typer.Option("--offload", help="Keep weights in host memory between uses.", rich_help_panel=_PANEL)
]
AttentionBackend = Annotated[
    str | None, typer.Option(help="native, flash, sage, xformers, ...", rich_help_panel=_PANEL)
]
VaeTiling = Annotated[bool, typer.Option("--vae-tiling", help="Decode in tiles.", rich_help_panel=_PANEL)]
VaeSlicing = Annotated[bool, typer.Option("--vae-slicing", help="Decode sample by sample.", rich_help_panel=_PANEL)]
Compile = Annotated[
    bool, typer.Option("--compile", help="torch.compile of the denoisers' blocks.", rich_help_panel=_PANEL)
]
