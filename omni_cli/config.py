"""Settings: frozen, inert, grown by layer, varied with `msgspec.structs.replace`. Nothing here reads, probes or loads.

"auto" stays "auto" until the room that knows the answer builds a new value from it.
"""

import math
import os
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from omni_cli.errors import UsageError
from omni_cli.log import logger
from omni_cli.request import GenerationRequest

DRAIN_TIMEOUT_S = 10.0
"""How long a release of memory waits for in-flight outputs (fixed by the async output design)."""

OUTPUT_TIMEOUT_S = 600.0
"""Default wait for an OUTPUT_READY (fixed by the async output design)."""

OUTPUT_TIMEOUT_VARIABLE = "VLLM_OMNI_ASYNC_OUTPUT_TIMEOUT"

INLINE_BYTES = 1024 * 1024
"""Payloads up to 1 MB travel inside the message (fixed by the async output design)."""

DISK_WAIT_S = 300.0
"""Long enough for somebody who watches to make room, short enough that a node does not idle through the night."""

PREVIEW_SUFFIX = ".preview.png"
"""Ending of a preview's name, after the stem of the output beside which it lies."""

AUTO_BATCH_SIZE = 0
"""The batch size is found by measuring."""

ExecutorName = Literal["local", "inline"]
EncoderName = Literal["auto", "pyav", "ffmpeg"]
CacheName = Literal["first-block", "faster", "mag", "pyramid-attention-broadcast", "sea", "taylorseer", "text-kv"]
OffloadName = Literal["none", "model", "sequential", "group"]
ProgressMode = Literal["auto", "rich", "plain", "json", "none"]


class VideoOutputTransport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How decoded output leaves the device; the key and its meaning are those of the deploy configuration."""

    enable_device_postprocess: bool = True


class Tuning(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is changed of a pipeline after its files; names are those of diffusers.

    `scheduler` is a class of diffusers, built from the configuration of the model's own with `scheduler_config` and
    `flow_shift` laid over it. `cache` is a step cache (`CACHES`) and `cache_config` the fields of its config class.
    `quantization` is a backend of diffusers' quantizers for the components `quantize` (none named: the denoisers), with the
    keywords `quantization_config`. `layerwise_casting` is the dtype that denoisers store their weights in. `components`
    replaces a component by a `.safetensors` or `.gguf` file. `compile` compiles the repeated blocks of the denoisers.
    """

    scheduler: str | None = None
    scheduler_config: dict[str, Any] = {}
    flow_shift: float | None = None
    attention_backend: str | None = None
    cache: CacheName | None = None
    cache_config: dict[str, Any] = {}
    quantization: str | None = None
    quantization_config: dict[str, Any] = {}
    quantize: tuple[str, ...] = ()
    layerwise_casting: str | None = None
    components: dict[str, str] = {}
    vae_tiling: bool = False
    vae_slicing: bool = False
    compile: bool = False
    offload: OffloadName = "none"


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Which model, and how it is loaded. `model`: "demo", a folder, a hub id, or a `.safetensors` file.

    `name` is what requests call it, where `model` is a path made from that name; None where nobody but `model` names it.

    `custom_pipeline` is a Python file, or a folder with a `pipeline.py`, whose pipeline class runs the model; `cards` a TOML file
    with cards of the user's own (`models/own.py`).
    """

    model: str = "demo"
    name: str | None = None
    revision: str | None = None
    variant: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    pipeline: str | None = None
    config: str | None = None
    custom_pipeline: str | None = None
    trust_remote_code: bool = False
    cards: str | None = None
    tuning: Tuning = Tuning()

    @property
    def title(self) -> str:
        """The model as the user named it: the id of rows and fingerprints, the same wherever the files lie."""
        return self.name or self.model

    def __hash__(self) -> int:
        """Of what tells models apart; the tuning holds mappings, which have no hash."""
        return hash((self.model, self.name, self.revision, self.dtype))


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How requests are executed.

    `batch_size` is outputs per call, or AUTO_BATCH_SIZE. `max_inflight_bytes` bounds the finished outputs that are not on disk
    yet, over device, ring and encoders; `prompt_cache_bytes` the prompt embeddings that are kept on the device. `output_timeout` and `forward_timeout` are in seconds; a forward that takes longer
    (None: as long as it likes) costs its worker's life. More than `max_restarts` deaths of workers without an output in between
    end the run. `chunked_decode`: frames of a video leave as they are decoded, where VAE and format allow it. `keep_invalid` writes outputs that hold NaN or infinity, `fail_on_constant` refuses those of one colour.
    `runner` is the import path of the runner class that the worker builds. `step_execution` hands every denoising step to the
    executor, which decides whether the request goes on; a preview is made after every `preview_every`th one (0: none).
    `drain_timeout` is how long, in seconds, every release of device memory waits for outputs in flight.
    `interpolator` is a TorchScript file that makes the frames between (None: they are blended).
    """

    executor: ExecutorName = "local"
    async_output: bool = True
    step_execution: bool = False
    preview_every: int = 0
    workers: int = 1
    max_restarts: int = 3
    batch_size: int = 1
    max_inflight_bytes: int = 1 << 30
    prompt_cache_bytes: int = 64 << 20
    output_timeout: float = OUTPUT_TIMEOUT_S
    drain_timeout: float = DRAIN_TIMEOUT_S
    forward_timeout: float | None = None
    transport: VideoOutputTransport = VideoOutputTransport()
    threads: int | None = None
    chunked_decode: bool = True
    keep_invalid: bool = False
    fail_on_constant: bool = False
    interpolator: str | None = None
    runner: str = "omni_cli.worker.runner:DiffusersRunner"

    @property
    def is_synchronous(self) -> bool:
        """Pure step mode: no thread listens to the worker but the caller's, and the worker has none for its outputs."""
        return self.step_execution and not self.async_output and self.executor == "local"


class OutputConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how files are written. `png_compression` 0..9, `quality` 1..100 (JPEG, WebP, AVIF).

    `codec` (None: the container's first) and `pix_fmt` (None: the codec's first that keeps the size) are names of `writers.codecs`,
    `crf` is 0 to what the codec ends at, `encoder_preset` one of x264's names, whatever the codec.

    `keep_partial`: a stop also cancels videos whose frames have begun to leave, and keeps the frames as `{name}.partial.mp4`.
    `disk_check`: compare what the run will write with what is free before it starts. `disk_wait` is how many seconds a disk that is
    full or out of order is waited for, with no new forwards meanwhile, before the run ends.
    `encoder_timeout`: seconds for which an ffmpeg program may take no frame, or not leave after the last one. In a run it is the
    output timeout.
    """

    output_dir: str = "outputs"
    image_format: str | None = None
    video_format: str | None = None
    name_template: str = "{id}"
    overwrite: bool = False
    keep_previews: bool = False
    metadata: bool = True
    png_compression: int = 1
    quality: int = 95
    codec: str | None = None
    pix_fmt: str | None = None
    crf: int = 18
    encoder: EncoderName = "auto"
    encoder_preset: str = "veryfast"
    encoder_timeout: float = OUTPUT_TIMEOUT_S
    writers: int | None = None
    disk_check: bool = True
    keep_partial: bool = False
    disk_wait: float = DISK_WAIT_S


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one run. `defaults` are the values of flags for requests that do not say; `seed` is the base seed.

    `lookahead` is how many requests may be held back so that those of one model, adapters and shape come together; 0 keeps the
    file's order.
    """

    model: ModelConfig = ModelConfig()
    engine: EngineConfig = EngineConfig()
    output: OutputConfig = OutputConfig()
    defaults: GenerationRequest = GenerationRequest()
    seed: int = 0
    limit: int | None = None
    shard: tuple[int, int] | None = None
    fail_fast: bool = False
    lookahead: int = 1000


def check_engine(engine: EngineConfig) -> None:
    """Raise UsageError for settings that contradict each other, all at once."""
    problems: list[str] = []
    if engine.preview_every < 0:
        problems.append(f"--preview-every {engine.preview_every}: must be a number of steps, 1 or more")
    if engine.is_synchronous and engine.workers > 1:
        problems.append(
            f"--workers {engine.workers}: --step-execution with --no-async runs one call at a time on the caller's thread; "
            "leave --async on, or use one worker"
        )
    if problems:
        raise UsageError("\n".join(problems))


def output_timeout(environ: Mapping[str, str] = os.environ) -> float:
    """Seconds to wait for an output: the environment's value if it is a positive number, else the default and one warning."""
    text = environ.get(OUTPUT_TIMEOUT_VARIABLE)
    if text is None:
        return OUTPUT_TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if math.isfinite(seconds) and seconds > 0:
        return seconds
    logger.warning(
        "%s=%r is not a positive number of seconds; using %g", OUTPUT_TIMEOUT_VARIABLE, text, OUTPUT_TIMEOUT_S
    )
    return OUTPUT_TIMEOUT_S
