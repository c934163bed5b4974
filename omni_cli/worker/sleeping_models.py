"""Models that have left the device and stay in host memory, so that a later switch back to them reads no weights."""

import gc
from collections.abc import Callable
from typing import Generic, TypeVar

from omni_cli import host_memory
from omni_cli.config import ModelConfig
from omni_cli.log import logger

RESERVE_BYTES = 2 << 30
"""Host memory that is left to outputs in flight, encoders and everything else."""

T = TypeVar("T")


class SleepingModels(Generic[T]):
    """What belongs to each sleeping model, a `T`; the one that is asleep longest is dropped first."""

    def __init__(self, free_bytes: Callable[[], int | None] = host_memory.free_bytes) -> None:
        """Start without models. `free_bytes` returns the host memory that is left; None if unknown: none is kept."""
        self._free_bytes = free_bytes
        self._sleepers: dict[ModelConfig, T] = {}

    def __contains__(self, model: ModelConfig) -> bool:
        return model in self._sleepers

    def has_room(self, nbytes: int, share: int = 1) -> bool:
        """Return True if `nbytes` of the `share`-th part of the free memory can be taken.

        Drops sleeping models until they can.
        """
        while (free := self._free_bytes()) is not None:
            if nbytes + RESERVE_BYTES <= free // share:
                return True
            if not self._sleepers:
                return False
            oldest = next(iter(self._sleepers))
            logger.info("%s is dropped from host memory", oldest.title)
            self.take(oldest)
            gc.collect()  # pipelines contain reference cycles
        return False

    def add(self, model: ModelConfig, state: T) -> None:
        """Keep `state` of `model`."""
        self._sleepers[model] = state

    def take(self, model: ModelConfig) -> T | None:
        """Return what was kept of `model`, which is not asleep any more; None if it was not."""
        return self._sleepers.pop(model, None)

    def clear(self) -> None:
        """Drop all models."""
        self._sleepers.clear()
