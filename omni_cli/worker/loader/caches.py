"""Step caches: what a denoiser computed at one step serves in part at the next. diffusers' own, by name."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import diffusers

from omni_cli.config import CacheName, Tuning
from omni_cli.errors import ModelLoadError

CONFIGS: dict[CacheName, str] = {
    "first-block": "FirstBlockCacheConfig",
    "faster": "FasterCacheConfig",
    "mag": "MagCacheConfig",
    "pyramid-attention-broadcast": "PyramidAttentionBroadcastConfig",
    "sea": "SeaCacheConfig",
    "taylorseer": "TaylorSeerCacheConfig",
    "text-kv": "TextKVCacheConfig",
}
"""The config class of each cache (diffusers 0.42); an older diffusers lacks some."""


def check_cache(tuning: Tuning) -> Iterator[str]:
    """What is wrong with `cache` and `cache_config`."""
    if tuning.cache is None:
        if tuning.cache_config:
            yield "--cache-config: needs --cache"
        return
    kind = getattr(diffusers, CONFIGS[tuning.cache], None)
    if kind is None:
        has = ", ".join(name for name, config in CONFIGS.items() if hasattr(diffusers, config))
        yield f"--cache {tuning.cache}: diffusers {diffusers.__version__} does not have it; it has {has}"
        return
    fields = {field.name for field in dataclasses.fields(kind) if not field.name.endswith(("callback", "identifiers"))}
    for key in tuning.cache_config:
        if key not in fields:
            yield f"--cache-config: {kind.__name__} has no {key!r}; it has {', '.join(sorted(fields))}"


def enable_cache(pipeline: Any, name: str, part: Any, tuning: Tuning) -> None:
    """Switch the cache on for one denoiser; its state is reset by the pipeline at the end of each call."""
    assert tuning.cache is not None
    if not hasattr(part, "enable_cache"):
        raise ModelLoadError(f"--cache: the pipeline's {name} is {type(part).__name__}, which takes no step cache")
    kind = getattr(diffusers, CONFIGS[tuning.cache])
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) and key.endswith("range") else value
        for key, value in tuning.cache_config.items()
    }
    if any(field.name == "current_timestep_callback" for field in dataclasses.fields(kind)):
        values["current_timestep_callback"] = lambda: pipeline.current_timestep
    try:
        part.enable_cache(kind(**values))
    except Exception as error:  # boundary: hooks of another library refuse models in their own ways
        raise ModelLoadError(
            f"--cache {tuning.cache}: {type(part).__name__}: {type(error).__name__}: {error}"
        ) from error
