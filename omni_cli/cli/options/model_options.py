"""Flags that choose a model, say how it is loaded, and change it after loading. Names are those of diffusers."""

from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from omni_cli.cli.options import panels

_option = partial(typer.Option, rich_help_panel=panels.MODEL)
_tuning_option = partial(typer.Option, rich_help_panel=panels.TUNING)


class Offload(StrEnum):
    """Where weights are kept between uses."""

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


Model = Annotated[str, _option("-m", "--model", help="demo, a folder, a hub id, or a .safetensors file.")]
ModelNow = Annotated[str | None, typer.Option("-m", "--model", help="Where the model is now, if it has moved since.")]
Revision = Annotated[str | None, _option(help="Branch, tag or commit of a hub model.")]
Variant = Annotated[str | None, _option(help="Weight variant, for example fp16.")]
Pipeline = Annotated[str | None, _option(help="Pipeline class, if the model does not name one.")]
ModelConfigDir = Annotated[
    str | None, _option("--model-config", help="Folder or hub id with the configs of a single file.")
]
Dtype = Annotated[str, _option(help="auto (bfloat16 on accelerators, float32 on CPU), or a torch dtype.")]
RecordedDtype = Annotated[str, typer.Option("--dtype", help="auto (as recorded), or a torch dtype.")]
Device = Annotated[str, _option(help="auto, cpu, cuda, cuda:1, xpu, npu, mps, ...")]
CustomPipeline = Annotated[
    str | None, _option(help="Python file (or folder with a pipeline.py) with the pipeline class.")
]
Cards = Annotated[str | None, _option(help="TOML file with pipeline cards that override the built-in ones.")]
TrustRemoteCode = Annotated[bool, _option("--trust-remote-code", help="Run code that comes with the model.")]

Scheduler = Annotated[str | None, _tuning_option(help="Scheduler class, with the model's own configuration.")]
SchedulerConfig = Annotated[str | None, _tuning_option(metavar="JSON", help="Values that override that configuration.")]
FlowShift = Annotated[float | None, _tuning_option(help="Shift of the flow's sigmas.")]
Lora = Annotated[
    list[str] | None,
    _option("--lora", metavar="PATH[:WEIGHT]", help="For requests without lora; can be repeated."),
]
CacheOption = Annotated[Cache | None, _tuning_option("--cache", help="Reuse results of earlier steps.")]
CacheConfig = Annotated[str | None, _tuning_option(metavar="JSON", help="Fields of the cache's config class.")]
Quantization = Annotated[str | None, _tuning_option(help="bitsandbytes_4bit, bitsandbytes_8bit, quanto or torchao.")]
QuantizationConfig = Annotated[str | None, _tuning_option(metavar="JSON", help="Keywords of that backend.")]
Quantize = Annotated[
    str | None, _tuning_option(metavar="COMPONENTS", help="What to quantize (default: the denoisers).")
]
Component = Annotated[
    list[str] | None,
    _tuning_option(
        "--component", metavar="NAME=FILE", help="A component from a .safetensors or .gguf file; can be repeated."
    ),
]
LayerwiseCasting = Annotated[
    str | None, _tuning_option(metavar="DTYPE", help="Store weights in this dtype, such as float8_e4m3fn.")
]
OffloadOption = Annotated[Offload, _tuning_option("--offload", help="Keep weights in host memory between uses.")]
AttentionBackend = Annotated[str | None, _tuning_option(help="Attention backend: native, flash, sage, xformers, ...")]
VaeTiling = Annotated[bool, _tuning_option("--vae-tiling", help="Decode in tiles, for less memory.")]
VaeSlicing = Annotated[bool, _tuning_option("--vae-slicing", help="Decode sample by sample, for less memory.")]
Compile = Annotated[bool, _tuning_option("--compile", help="torch.compile the blocks of the denoisers.")]
