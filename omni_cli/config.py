"""Settings: frozen structs, varied with `msgspec.structs.replace`. Nothing here reads files, probes devices or loads.

"auto" stays "auto" until the module that can resolve it builds a new struct.
"""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from omni_cli.errors import UsageError
from omni_cli.log import logger
from omni_cli.request import GenerationRequest

DRAIN_TIMEOUT_S = 10.0
"""Seconds that a release of device memory waits for outputs in flight; vLLM-Omni's async output uses the same value."""

OUTPUT_TIMEOUT_S = 600.0
"""Seconds to wait for OUTPUT_READY after COMPUTE_DONE; vLLM-Omni's async output uses the same default."""

OUTPUT_TIMEOUT_VARIABLE = "VLLM_OMNI_ASYNC_OUTPUT_TIMEOUT"

INLINE_BYTES = 1024 * 1024
"""Payloads up to this size travel inside the message; vLLM-Omni's async output uses the same threshold."""

DISK_WAIT_S = 300.0
"""Seconds to wait for a full or failing disk: time for a person to make room, not a night of an idle node."""

PREVIEW_SUFFIX = ".preview.png"
"""Suffix of a preview's file name, after the stem of its output."""

AUTO_BATCH_SIZE = 0
"""Value of `EngineConfig.batch_size` that asks for a measured batch size."""

ExecutorName = Literal["local", "inline"]
EncoderName = Literal["auto", "pyav", "ffmpeg"]
ChangedPolicy = Literal["refuse", "keep", "replace"]
LayoutName = Literal["vbench", "geneval", "hf-dataset"]
ResultsFormat = Literal["openai", "openai-base64"]
CacheName = Literal["first-block", "faster", "mag", "pyramid-attention-broadcast", "sea", "taylorseer", "text-kv"]
OffloadName = Literal["none", "model", "sequential", "group"]
PromptSyntax = Literal["auto", "plain", "a1111"]
ProgressMode = Literal["auto", "rich", "plain", "json", "none"]


class VideoOutputTransport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How decoded output leaves the device. Keys are those of vLLM-Omni's `video_output_transport`."""

    enable_device_postprocess: bool = True


class Tuning(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Changes to a pipeline after its files are chosen; names are diffusers' own.

    `scheduler` names a scheduler class of diffusers, built from the config of the model's own scheduler updated with
    `scheduler_config` and `flow_shift`. `cache` is a step cache (`CacheName`), `cache_config` the fields of its config
    class. `quantization` is a quantization backend of diffusers for the components in `quantize` (empty: the
    denoisers), with the keywords `quantization_config`. `layerwise_casting` is the storage dtype of the denoisers'
    weights. `components` maps a component's name to a `.safetensors` or `.gguf` file. `compile` compiles the repeated
    blocks of the denoisers.
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
    """Which model to load, and how. `model` is "demo", a folder, a hub id, or a `.safetensors` file.

    `name` is the model as requests spell it, where `model` is a path derived from that spelling; None otherwise.
    `custom_pipeline` is a Python file, or a folder with a `pipeline.py`, that defines the pipeline class. `cards` is a
    TOML file of user cards (`models/user_cards.py`).
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
        """The model as the user spelled it: its id in rows and fingerprints, independent of where the files are."""
        return self.name or self.model

    def __hash__(self) -> int:
        """Hash the fields that tell models apart; `tuning` holds dicts, which have no hash."""
        return hash((self.model, self.name, self.revision, self.dtype))


ForwardTimeout = float | Literal["auto"] | None


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How requests are executed.

    - `step_execution`: hand every denoising step to the executor, which decides whether the request goes on.
    - `preview_every`: steps between previews; 0 for none.
    - `workers`: worker processes; "auto": one, and more as the executor is scaled.
    - `max_restarts`: deaths of workers without an output in between; one more ends the run.
    - `batch_size`: outputs per pipeline call, or AUTO_BATCH_SIZE.
    - `max_inflight_bytes`: limit of finished outputs that are not on disk yet, over device, ring and encoders.
    - `prompt_cache_bytes`: limit of the prompt embeddings kept on the device.
    - `output_timeout`: seconds from COMPUTE_DONE to OUTPUT_READY; the request fails on expiry.
    - `drain_timeout`: seconds that a release of device memory waits for outputs in flight.
    - `forward_timeout`: seconds, None for unlimited; the worker is replaced on expiry. "auto": twenty times the slowest
      forward of that shape so far, at least two minutes, and unlimited for the first.
    - `threads`: intra-op threads of a worker, None for torch's default.
    - `chunked_decode`: send frames of a video while the rest is being decoded, where VAE and format allow it.
    - `keep_invalid`: write outputs that hold NaN or infinity. `fail_on_constant`: refuse outputs of one colour.
    - `fail_on_nsfw`: refuse outputs with a sample that the pipeline's safety checker blackened.
    - `interpolator`: TorchScript file that makes the frames in between; None to blend them.
    - `runner`: import path of the worker's runner class, `module:Class`.
    """

    executor: ExecutorName = "local"
    async_output: bool = True
    step_execution: bool = False
    preview_every: int = 0
    workers: int | Literal["auto"] = "auto"
    max_restarts: int = 3
    batch_size: int = 1
    max_inflight_bytes: int = 1 << 30
    prompt_cache_bytes: int = 64 << 20
    output_timeout: float = OUTPUT_TIMEOUT_S
    drain_timeout: float = DRAIN_TIMEOUT_S
    forward_timeout: ForwardTimeout = "auto"
    transport: VideoOutputTransport = VideoOutputTransport()
    threads: int | None = None
    chunked_decode: bool = True
    keep_invalid: bool = False
    fail_on_constant: bool = False
    fail_on_nsfw: bool = False
    interpolator: str | None = None
    runner: str = "omni_cli.worker.runner:DiffusersRunner"

    @property
    def least_workers(self) -> int:
        """The number of workers that start at once: all of them, or one with "auto"."""
        return 1 if self.workers == "auto" else self.workers

    @property
    def is_synchronous(self) -> bool:
        """True in pure step mode: no pump thread in the parent and no output thread in the worker."""
        return self.step_execution and not self.async_output and self.executor == "local"


class OutputConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how files are written.

    - `layout`: names, folders and metadata that an evaluator expects, in place of `name_template`.
    - `results`: the result file of an API, with paths or with the files in it as base64.
    - `overwrite`: render every request, finished or not.
    - `changed`: what becomes of a request that is done, with its files in place, and differs now: "refuse" the run,
      "keep" the files and leave it out, or "replace" them.
    - `png_compression`: 0 to 9. `quality`: 1 to 100, for JPEG, WebP and AVIF.
    - `codec`: None for the container's default. `pix_fmt`: None for the codec's first one that keeps the size.
    - `crf`: 0 up to the codec's largest value. `encoder_preset`: a preset name of x264, translated for other codecs.
    - `encoder_timeout`: seconds in which an ffmpeg program must take a frame, or exit after the last one. A run sets it
      to the output timeout.
    - `float_arrays`: npy, npz and safetensors files hold float32 in 0..1, not levels (`with_float_arrays`).
    - `writers`: writer threads, None to choose by the cores.
    - `disk_check`: compare the estimated bytes with the free space before the run starts.
    - `keep_partial`: a stop also ends videos whose frames have begun to arrive and keeps them as `{name}.partial.mp4`.
    - `disk_wait`: seconds to wait for a full or failing disk, without new forwards, before the run ends.
    """

    output_dir: str = "outputs"
    image_format: str | None = None
    video_format: str | None = None
    name_template: str = "{id}"
    layout: LayoutName | None = None
    results: ResultsFormat | None = None
    overwrite: bool = False
    changed: ChangedPolicy = "refuse"
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
    float_arrays: bool = False
    writers: int | None = None
    disk_check: bool = True
    keep_partial: bool = False
    disk_wait: float = DISK_WAIT_S


class PromptsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a row of a prompt list becomes: one request, or several.

    - `syntax`: "a1111" reads flags, LoRA tags and weights of AUTOMATIC1111's web UI, kohya's scripts and InvokeAI in
      prompts; "plain" leaves them as words, and so does "auto", with a warning.
    - `lora_dir`: folder of the adapters that LoRA tags name.
    - `expand`: alternatives in prompts (`{a|b}`, `{2$$a|b|c}`, `__wildcard__`): 0 leaves them as words, "all" makes a
      request of each combination, a number makes so many requests of combinations that are drawn.
    - `wildcards`: folder of the wildcard files; None for `wildcards` beside the prompt file.
    - `matrix`: values by field; each row is rendered with every combination, whatever it says of these fields itself.
    - `repeat`: requests per combination; they differ in their seeds.
    """

    syntax: PromptSyntax = "auto"
    lora_dir: str | None = None
    expand: int | Literal["all"] = 0
    wildcards: str | None = None
    matrix: Mapping[str, Sequence[Any]] = {}
    repeat: int = 1


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of a run.

    `defaults` holds the flags' values for fields that a request leaves out. `seed` is the base of derived seeds.
    `shard`: see `storage.shards`. `stop_timeout` is the number of seconds after a stop signal until running forwards
    are killed, None for unlimited. `lookahead` is the number of requests that may be reordered to bring one model, LoRA
    and shape together; 0 keeps the order of the file.
    """

    model: ModelConfig = ModelConfig()
    engine: EngineConfig = EngineConfig()
    output: OutputConfig = OutputConfig()
    prompts: PromptsConfig = PromptsConfig()
    defaults: GenerationRequest = GenerationRequest()
    seed: int = 0
    limit: int | None = None
    shard: tuple[int, int] | None = None
    fail_fast: bool = False
    stop_timeout: float | None = None
    lookahead: int = 1000


def with_float_arrays(config: RunConfig) -> RunConfig:
    """Return `config` with float arrays if the conversion to levels on the device is switched off."""
    if config.engine.transport.enable_device_postprocess:
        return config
    return msgspec.structs.replace(config, output=msgspec.structs.replace(config.output, float_arrays=True))


def check_engine(engine: EngineConfig) -> None:
    """Raise UsageError that lists every setting of `engine` that is out of range or contradicts another."""
    problems: list[str] = []
    if engine.preview_every < 0:
        problems.append(f"--preview-every {engine.preview_every}: must be a number of steps, 1 or more")
    if engine.is_synchronous and engine.least_workers > 1:
        problems.append(
            f"--workers {engine.workers}: --step-execution with --no-async runs one call at a time on the caller's "
            "thread; leave --async on, or use one worker"
        )
    if problems:
        raise UsageError("\n".join(problems))


def output_timeout(environ: Mapping[str, str] = os.environ) -> float:
    """Return the seconds to wait for an output: OUTPUT_TIMEOUT_VARIABLE of `environ` if it is a positive number.

    Anything else gives OUTPUT_TIMEOUT_S and one warning.
    """
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
