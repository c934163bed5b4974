"""Apply `--device`, `--dtype`, `--scheduler`, `--cache`, `--offload` and the like to a pipeline.

before the weights: check_tuning ── names that do not exist, packages that are not installed
after the weights:  scheduler ─> casting ─> attention ─> step cache ─> VAE ─> device or offload ─> compile

A setting that a pipeline does not support is an error that lists what it supports; it is never ignored. Nothing here
depends on the model.
"""

from collections.abc import Iterator
from typing import Any

import diffusers
import torch
from diffusers.models.attention_dispatch import AttentionBackendName, attention_backend
from diffusers.utils import DummyObject

from omni_cli import platforms
from omni_cli.config import ModelConfig, Tuning
from omni_cli.errors import ModelLoadError
from omni_cli.models.weights import DTYPE_ALIASES
from omni_cli.worker.loader.caches import cache_problems, enable_cache
from omni_cli.worker.loader.quantize import DENOISERS, quantization_problems

_COMPONENT_METHODS = (
    "enable_tiling",
    "enable_slicing",
    "set_attention_backend",
    "enable_layerwise_casting",
    "enable_cache",
    "compile_repeated_blocks",
)


def resolve_device_and_dtype(model: ModelConfig) -> tuple[torch.device, torch.dtype]:
    """Return the device and dtype of `model`; "auto" is the first accelerator, else the CPU, and the platform's dtype.

    Raises UsageError for a device and ModelLoadError for a dtype that does not exist.
    """
    platform, device = platforms.resolve(model.device)
    dtype = platform.default_dtype() if model.dtype == "auto" else floating_dtype(model.dtype)
    return torch.device(device), dtype


def floating_dtype(name: str) -> torch.dtype:
    """Return the floating dtype called `name`, or its alias. Raises ModelLoadError if there is none."""
    dtype = getattr(torch, DTYPE_ALIASES.get(name, name), None)
    if isinstance(dtype, torch.dtype) and dtype.is_floating_point:
        return dtype
    raise ModelLoadError(f"--dtype {name!r} is not a floating dtype; use auto, float32, bfloat16 or float16")


def check_tuning(tuning: Tuning) -> None:
    """Raise ModelLoadError with everything in `tuning` that can work with no model."""
    problems = [
        *_scheduler_problems(tuning),
        *_attention_problems(tuning),
        *cache_problems(tuning),
        *quantization_problems(tuning),
    ]
    if problems:
        raise ModelLoadError("\n".join(problems))


def apply_tuning(pipeline: Any, tuning: Tuning, device: torch.device, dtype: torch.dtype) -> None:
    """Apply `tuning` to `pipeline` and move it to `device`.

    Raises ModelLoadError for what the pipeline does not support.
    """
    if tuning.scheduler or tuning.scheduler_config or tuning.flow_shift is not None:
        pipeline.scheduler = _scheduler(pipeline, tuning)
    if tuning.layerwise_casting:
        storage = floating_dtype(tuning.layerwise_casting)
        for name, part in denoisers(pipeline):
            enable = _method(name, part, "enable_layerwise_casting", "--layerwise-casting")
            enable(storage_dtype=storage, compute_dtype=dtype)
    if tuning.attention_backend:
        _set_attention_backend(pipeline, tuning.attention_backend)
    if tuning.cache:
        for name, part in denoisers(pipeline):
            enable_cache(pipeline, name, part, tuning)
    vae = getattr(pipeline, "vae", None)
    if tuning.vae_tiling:
        _method("vae", vae, "enable_tiling", "--vae-tiling")()
    if tuning.vae_slicing:
        _method("vae", vae, "enable_slicing", "--vae-slicing")()
    _move_or_offload(pipeline, tuning, device)
    if tuning.compile:
        for name, part in denoisers(pipeline):
            _compile(name, part)


def denoisers(pipeline: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and module of each component that runs at every step. Raises ModelLoadError if there is none."""
    modules = [
        (name, part)
        for name, part in pipeline.components.items()
        if isinstance(part, torch.nn.Module) and name.removesuffix("_2") in DENOISERS
    ]
    if not modules:
        raise ModelLoadError(
            f"{type(pipeline).__name__} has no denoiser among its components ({', '.join(pipeline.components)}); "
            "leave out the flags that change one"
        )
    yield from modules


def _method(name: str, part: Any, method: str, flag: str) -> Any:
    """Return `part.method`. Raises ModelLoadError, which lists what the component `name` supports, if there is none."""
    bound = getattr(part, method, None)
    if bound is not None:
        return bound
    if part is None:
        raise ModelLoadError(f"{flag}: the pipeline's {name} is no such component")
    supported = ", ".join(other for other in _COMPONENT_METHODS if hasattr(part, other)) or "none of these switches"
    raise ModelLoadError(f"{flag}: the pipeline's {name} is {type(part).__name__}, which has {supported}")


def _scheduler_problems(tuning: Tuning) -> Iterator[str]:
    if tuning.scheduler is None:
        return
    kind = getattr(diffusers, tuning.scheduler, None)
    if isinstance(kind, DummyObject):
        yield f"--scheduler {tuning.scheduler} needs packages that are not installed: {', '.join(kind._backends)}"
    elif not (isinstance(kind, type) and issubclass(kind, diffusers.SchedulerMixin)):
        example = "UniPCMultistepScheduler"
        yield f"--scheduler {tuning.scheduler!r}: diffusers has no such scheduler; names are like {example}"


def _attention_problems(tuning: Tuning) -> Iterator[str]:
    names = [backend.value for backend in AttentionBackendName]
    if tuning.attention_backend is not None and tuning.attention_backend not in names:
        public = ", ".join(name for name in names if not name.startswith("_"))
        yield f"--attention-backend {tuning.attention_backend!r}: there is no such backend; there are {public}"


def _scheduler(pipeline: Any, tuning: Tuning) -> Any:
    """Return the scheduler of `tuning`, built from the configuration of the model's own scheduler."""
    current = getattr(pipeline, "scheduler", None)
    if current is None:
        raise ModelLoadError(f"--scheduler: {type(pipeline).__name__} has no scheduler")
    scheduler_class = type(current) if tuning.scheduler is None else getattr(diffusers, tuning.scheduler)
    compatible = {kind.__name__ for kind in getattr(current, "compatibles", [])} | {type(current).__name__}
    if scheduler_class.__name__ not in compatible and not (
        _supports_flow(type(current)) and _supports_flow(scheduler_class)
    ):
        raise ModelLoadError(
            f"--scheduler {scheduler_class.__name__}: not for {type(pipeline).__name__}, "
            f"whose {type(current).__name__} can be replaced by {', '.join(sorted(compatible))}"
        )
    values = dict(tuning.scheduler_config)
    parameters = scheduler_class._get_init_keys(scheduler_class)
    if tuning.flow_shift is not None:
        shift = next((name for name in ("flow_shift", "shift") if name in parameters), None)
        if shift is None:
            raise ModelLoadError(
                f"--flow-shift: {scheduler_class.__name__} has no such setting; choose another --scheduler"
            )
        values[shift] = tuning.flow_shift
    for key in values:
        if key not in parameters:
            available = ", ".join(sorted(parameters - {"self"}))
            raise ModelLoadError(f"--scheduler-config: {scheduler_class.__name__} has no {key!r}; it has {available}")
    try:
        return scheduler_class.from_config(current.config, **values)
    except Exception as error:  # boundary: a scheduler may raise errors of any type for a bad value
        raise ModelLoadError(f"--scheduler {scheduler_class.__name__}: {type(error).__name__}: {error}") from error


def _supports_flow(scheduler: Any) -> bool:
    """Return True if the scheduler class can run flow matching, which `compatibles` lists do not tell."""
    return bool({"shift", "flow_shift", "use_flow_sigmas"} & scheduler._get_init_keys(scheduler))


def _set_attention_backend(pipeline: Any, backend: str) -> None:
    """Set the attention backend of the denoisers, and of nothing else.

    diffusers' `set_attention_backend` also sets the default of the process, which the next model would inherit.
    """
    methods = [
        _method(name, part, "set_attention_backend", "--attention-backend") for name, part in denoisers(pipeline)
    ]
    try:
        with attention_backend(backend):  # restores the default of the process
            for method in methods:
                method(backend)
    except (ValueError, RuntimeError, ImportError) as error:
        raise ModelLoadError(f"--attention-backend {backend}: {error}") from error


def _move_or_offload(pipeline: Any, tuning: Tuning, device: torch.device) -> None:
    """Move the pipeline to `device`, or install hooks that move each component there when it is used."""
    if tuning.offload == "none":
        pipeline.to(device)
        return
    if device.type == "cpu":
        raise ModelLoadError(
            f"--offload {tuning.offload}: the model computes on the cpu, where its weights are already"
        )
    match tuning.offload:
        case "model":
            pipeline.enable_model_cpu_offload(device=device)
        case "sequential":
            pipeline.enable_sequential_cpu_offload(device=device)
        case "group":
            pipeline.enable_group_offload(
                onload_device=device, offload_type="leaf_level", use_stream=device.type == "cuda", non_blocking=True
            )


def _compile(name: str, part: Any) -> None:
    """Compile one of each repeated block, which serves all its copies: a new shape takes seconds instead of minutes."""
    if not getattr(part, "_repeated_blocks", None):
        raise ModelLoadError(
            f"--compile: the pipeline's {name} is {type(part).__name__}, which names no repeated blocks"
        )
    part.compile_repeated_blocks(fullgraph=True)
