"""diffusers' step caches, which reuse a part of what the denoiser computed at an earlier step."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import diffusers

from omni_cli.config import CacheName, Tuning
from omni_cli.errors import ModelLoadError

CONFIG_CLASSES: dict[CacheName, str] = {
    "first-block": "FirstBlockCacheConfig",
    "faster": "FasterCacheConfig",
    "mag": "MagCacheConfig",
    "pyramid-attention-broadcast": "PyramidAttentionBroadcastConfig",
    "sea": "SeaCacheConfig",
    "taylorseer": "TaylorSeerCacheConfig",
    "text-kv": "TextKVCacheConfig",
}
"""The config class of each cache in diffusers 0.42. Older versions lack some of them."""


def cache_problems(tuning: Tuning) -> Iterator[str]:
    """Yield one message per problem with `tuning.cache` and `tuning.cache_config`."""
    if tuning.cache is None:
        if tuning.cache_config:
            yield "--cache-config: needs --cache"
        return
    config_class = getattr(diffusers, CONFIG_CLASSES[tuning.cache], None)
    if config_class is None:
        available = ", ".join(name for name, config in CONFIG_CLASSES.items() if hasattr(diffusers, config))
        yield f"--cache {tuning.cache}: diffusers {diffusers.__version__} does not have it; it has {available}"
        return
    names = [field.name for field in dataclasses.fields(config_class)]
    fields = {name for name in names if not name.endswith(("callback", "identifiers"))}
    for key in tuning.cache_config:
        if key not in fields:
            yield f"--cache-config: {config_class.__name__} has no {key!r}; it has {', '.join(sorted(fields))}"


def enable_cache(pipeline: Any, name: str, denoiser: Any, tuning: Tuning) -> None:
    """Enable `tuning.cache` for `denoiser`, the component `name` of `pipeline`, which resets it after each call.

    Raises ModelLoadError if the denoiser does not support the cache or the settings.
    """
    assert tuning.cache is not None
    if not hasattr(denoiser, "enable_cache"):
        raise ModelLoadError(f"--cache: the pipeline's {name} is {type(denoiser).__name__}, which takes no step cache")
    config_class = getattr(diffusers, CONFIG_CLASSES[tuning.cache])
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) and key.endswith("range") else value
        for key, value in tuning.cache_config.items()
    }
    if any(field.name == "current_timestep_callback" for field in dataclasses.fields(config_class)):
        values["current_timestep_callback"] = lambda: pipeline.current_timestep
    try:
        denoiser.enable_cache(config_class(**values))
    except Exception as error:  # boundary: diffusers' hooks raise errors of any type for a model they do not support
        raise ModelLoadError(
            f"--cache {tuning.cache}: {type(denoiser).__name__}: {type(error).__name__}: {error}"
        ) from error
