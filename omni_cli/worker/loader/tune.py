"""What `--scheduler`, `--cache`, `--offload` and their like change of a loaded pipeline. Nothing here is per model.

before the weights: check ── names that do not exist, packages that are not there
after the weights:  scheduler ─> casting ─> attention ─> step cache ─> VAE ─> place (device or offload) ─> compile

A knob that a pipeline lacks is an error that names what it has: a run that silently goes without would be measured as with it.
"""

from collections.abc import Iterator
from typing import Any

import diffusers
import torch
from diffusers.models.attention_dispatch import AttentionBackendName, attention_backend
from diffusers.utils import DummyObject

from omni_cli.config import Tuning
from omni_cli.errors import ModelLoadError
from omni_cli.worker.loader.caches import check_cache, enable_cache
from omni_cli.worker.loader.place import dtype_of
from omni_cli.worker.loader.quantize import check_quantization

DENOISERS = ("transformer", "unet", "prior", "decoder")
"""How diffusers names the components that run once per step; a second one has `_2` behind it."""


def check(tuning: Tuning) -> None:
    """Refuse what can never work, before any weights are read. Raises ModelLoadError with all that is wrong."""
    problems = [
        *_scheduler_problems(tuning),
        *_backend_problems(tuning),
        *check_cache(tuning),
        *check_quantization(tuning),
    ]
    if problems:
        raise ModelLoadError("\n".join(problems))


def apply(pipeline: Any, tuning: Tuning, device: torch.device, dtype: torch.dtype) -> None:
    """Make `pipeline` what `tuning` says, and put it where it computes. Raises ModelLoadError for what it cannot be."""
    if tuning.scheduler or tuning.scheduler_config or tuning.flow_shift is not None:
        pipeline.scheduler = _scheduler(pipeline, tuning)
    if tuning.layerwise_casting:
        storage = dtype_of(tuning.layerwise_casting)
        for name, part in denoisers(pipeline):
            _able(name, part, "enable_layerwise_casting", "--layerwise-casting")(
                storage_dtype=storage, compute_dtype=dtype
            )
    if tuning.attention_backend:
        _attend(pipeline, tuning.attention_backend)
    if tuning.cache:
        for name, part in denoisers(pipeline):
            enable_cache(pipeline, name, part, tuning)
    for wanted, method, flag in (
        (tuning.vae_tiling, "enable_tiling", "--vae-tiling"),
        (tuning.vae_slicing, "enable_slicing", "--vae-slicing"),
    ):
        if wanted:
            _able("vae", getattr(pipeline, "vae", None), method, flag)()
    _place(pipeline, tuning, device)
    if tuning.compile:
        for name, part in denoisers(pipeline):
            _compile(name, part)


def _attend(pipeline: Any, backend: str) -> None:
    """`backend` for the denoisers of `pipeline`. diffusers makes it the whole process's, too: the model loaded next would get it."""
    methods = [_able(name, part, "set_attention_backend", "--attention-backend") for name, part in denoisers(pipeline)]
    try:
        with attention_backend(backend):  # puts the process's own back
            for method in methods:
                method(backend)
    except (ValueError, RuntimeError, ImportError) as error:
        raise ModelLoadError(f"--attention-backend {backend}: {error}") from error


def denoisers(pipeline: Any) -> Iterator[tuple[str, Any]]:
    """The components that run at every step, with their names. Raises ModelLoadError if there is none."""
    found = [
        (name, part)
        for name, part in pipeline.components.items()
        if isinstance(part, torch.nn.Module) and name.removesuffix("_2") in DENOISERS
    ]
    if not found:
        raise ModelLoadError(
            f"{type(pipeline).__name__} has no denoiser among its components ({', '.join(pipeline.components)}); "
            "leave out the flags that change one"
        )
    yield from found


def _able(name: str, part: Any, method: str, flag: str) -> Any:
    """The bound method, or ModelLoadError that names what the component does have."""
    found = getattr(part, method, None)
    if found is None:
        has = [
            switch
            for switch in (
                "enable_tiling",
                "enable_slicing",
                "set_attention_backend",
                "enable_layerwise_casting",
                "enable_cache",
                "compile_repeated_blocks",
            )
            if hasattr(part, switch)
        ]
        what = (
            "no such component"
            if part is None
            else f"{type(part).__name__}, which has {', '.join(has) or 'none of these switches'}"
        )
        raise ModelLoadError(f"{flag}: the pipeline's {name} is {what}")
    return found


def _scheduler_problems(tuning: Tuning) -> Iterator[str]:
    if tuning.scheduler is None:
        return
    found = getattr(diffusers, tuning.scheduler, None)
    if isinstance(found, DummyObject):
        yield f"--scheduler {tuning.scheduler} needs packages that are not installed: {', '.join(found._backends)}"
    elif not (isinstance(found, type) and issubclass(found, diffusers.SchedulerMixin)):
        yield f"--scheduler {tuning.scheduler!r}: diffusers has no such scheduler; names are like UniPCMultistepScheduler"


def _scheduler(pipeline: Any, tuning: Tuning) -> Any:
    """The wanted scheduler, from the configuration of the one that came with the model."""
    own = getattr(pipeline, "scheduler", None)
    if own is None:
        raise ModelLoadError(f"--scheduler: {type(pipeline).__name__} has no scheduler")
    wanted = type(own) if tuning.scheduler is None else getattr(diffusers, tuning.scheduler)
    compatible = {kind.__name__ for kind in getattr(own, "compatibles", [])} | {type(own).__name__}
    if wanted.__name__ not in compatible and not (_flows(type(own)) and _flows(wanted)):
        raise ModelLoadError(
            f"--scheduler {wanted.__name__}: not for {type(pipeline).__name__}, whose {type(own).__name__} can be "
            f"replaced by {', '.join(sorted(compatible))}"
        )
    values = dict(tuning.scheduler_config)
    expected = wanted._get_init_keys(wanted)
    if tuning.flow_shift is not None:
        values[_shift_name(wanted, expected)] = tuning.flow_shift
    for key in values:
        if key not in expected:
            raise ModelLoadError(
                f"--scheduler-config: {wanted.__name__} has no {key!r}; it has {', '.join(sorted(expected - {'self'}))}"
            )
    try:
        return wanted.from_config(own.config, **values)
    except Exception as error:  # boundary: a class of another library may raise anything for a value it dislikes
        raise ModelLoadError(f"--scheduler {wanted.__name__}: {type(error).__name__}: {error}") from error


def _flows(scheduler: Any) -> bool:
    """True if the class can run a flow. diffusers' lists of compatible classes leave these out, its examples do not."""
    return bool({"shift", "flow_shift", "use_flow_sigmas"} & scheduler._get_init_keys(scheduler))


def _shift_name(scheduler: Any, expected: set[str]) -> str:
    """What the class calls the shift of a flow's sigmas."""
    for name in ("flow_shift", "shift"):
        if name in expected:
            return name
    raise ModelLoadError(f"--flow-shift: {scheduler.__name__} has no such setting; choose another --scheduler")


def _backend_problems(tuning: Tuning) -> Iterator[str]:
    names = [backend.value for backend in AttentionBackendName]
    if tuning.attention_backend is not None and tuning.attention_backend not in names:
        known = ", ".join(name for name in names if not name.startswith("_"))
        yield f"--attention-backend {tuning.attention_backend!r}: there is no such backend; there are {known}"


def _place(pipeline: Any, tuning: Tuning, device: torch.device) -> None:
    """Onto the device, or behind hooks that bring each part there when its turn comes."""
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
    """Regional: one block is compiled once and serves all its copies, so a new shape costs seconds and not minutes."""
    if not getattr(part, "_repeated_blocks", None):
        raise ModelLoadError(
            f"--compile: the pipeline's {name} is {type(part).__name__}, which names no repeated blocks"
        )
    part.compile_repeated_blocks(fullgraph=True)
