"""What a worker asks of the thing that runs the model. All methods are called from the worker's main thread."""

from collections.abc import Callable, Sequence
from typing import Protocol

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.media import Media
from omni_cli.request import PlannedRequest
from omni_cli.transport.messages import Loaded

Report = Callable[[str], None]
"""Takes a step of loading, for people."""

Identified = Callable[[Loaded], None]
"""Takes what loading will give, before it is done."""

OnStep = Callable[[int, int], None]
"""Takes (step, total), counted from 1."""

Stop = Callable[[], bool]
"""True when the batch is no longer wanted."""


class Runner(Protocol):
    """A model in memory. `load` comes first; `execute_model` any number of times; `close` last."""

    def load(
        self, model: ModelConfig, engine: EngineConfig, report: Report, identified: Identified | None = None
    ) -> Loaded:
        """Load `model`; ModelLoadError says what to do when that fails.

        `identified` is told what this will return as soon as that is known, if it is known before the weights are loaded.
        """

    def execute_model(self, requests: Sequence[PlannedRequest], on_step: OnStep, stop: Stop) -> list[Media]:
        """One checked Media per request, in order; its batch axis is the request's outputs. May still be computing on the device.

        Raises RequestCancelled when `stop()` was true at a step, else another RequestError.
        """

    def synchronize(self) -> None:
        """Return when the device has finished all that was asked of it."""

    def sleep(self) -> None:
        """Move the weights to host memory and give the device's memory back."""

    def wake_up(self) -> None:
        """Move the weights back to the device."""

    def close(self) -> None:
        """Drop the model."""
