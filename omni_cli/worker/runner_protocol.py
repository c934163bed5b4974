"""The interface between the worker process and a model runner (`--runner package.module:Class`).

The worker calls every method from its main thread, except `prefetch`, which it calls from its inbox thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.media import Media
from omni_cli.request import PlannedRequest
from omni_cli.transport.messages import Loaded

OnProgress = Callable[[str], None]
"""Called with the name of each loading step as it starts, for display."""

OnIdentified = Callable[[Loaded], None]
"""Called with the result of `load` if it is known before the weights are read."""

OnStep = Callable[[int, int], None]
"""Called after each denoising step with (step, total), counted from 1."""

IsCancelled = Callable[[], bool]
"""Returns True once the call has been cancelled."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A preview of request number `owner` of a batch. `pixels`: uint8 RGB [H, W, 3] on the device, may be computing."""

    owner: int
    pixels: Any


@dataclass(frozen=True, slots=True)
class StepState:
    """The state of a call after denoising step `step` of `total`, counted from 1.

    The step's kernels have been launched and may still be running on the device.

    timestep: the scheduler's timestep, a number or a tensor of one element; reading the tensor may wait for the device.
    sigma: the noise level left after the step, a number or a tensor of one element; None if the scheduler has none.
    latents: the pipeline's own latents, on the device; None if the pipeline does not expose them.
    pictures: the previews that are due after this step.
    fault: why no further previews will be made, set once at the step where that turned out.
    """

    step: int
    total: int
    timestep: Any | None = None
    sigma: float | None = None
    latents: Any | None = None
    pictures: tuple[Picture, ...] = ()
    fault: str | None = None


OnState = Callable[[StepState], bool]
"""Called after each denoising step; returns False to skip the remaining steps and decode the latents as they are.

May raise RequestCancelled.
"""

OnFrames = Callable[[int, Media], None]
"""Called with the number of a request in its batch and its next frames, which start at `media.offset`.

Frame 0 starts a sample anew: what came before is void. Blocks while there is no room for more frames. Raises the
RequestError that has failed every request of the batch.
"""


class Runner(Protocol):
    """A model in memory.

    `identify` may be called at any time. `load` comes before everything else, `close` last.
    """

    def identify(self, model: ModelConfig, on_progress: OnProgress) -> Loaded | None:
        """Return what `load` would return, without reading weights or touching the loaded model.

        Returns None if only loading the model can tell. Raises ModelLoadError.
        """

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        on_progress: OnProgress,
        on_identified: OnIdentified | None = None,
    ) -> Loaded:
        """Load `model`, replacing the previous one.

        Calls `on_identified` with the return value as soon as it is known, if that is before the weights are read.
        Raises ModelLoadError with what to do about it.
        """

    def prefetch(self, requests: Sequence[PlannedRequest]) -> None:
        """Start reading the inputs of `requests`, which will be executed later. Thread-safe."""

    def discard(self, requests: Sequence[PlannedRequest]) -> None:
        """Drop the prefetched inputs of `requests`, which have finished or will not be executed."""

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: OnStep, is_cancelled: IsCancelled
    ) -> Sequence[Media]:
        """Run one batch and return one validated Media per request, in order.

        The batch axis of a Media is the request's samples. Its tensors may still be computing on the device.

        Raises RequestCancelled if `is_cancelled()` is True after a step, any other RequestError if the batch fails.
        """

    def stream_to(self, on_frames: OnFrames | None) -> None:
        """Allow the next batch to pass on frames of a video before it is finished; None: its media are wanted whole.

        A runner may ignore this. One that passes on all frames of a request returns a Media with `streamed` for it.
        """

    def synchronize(self) -> None:
        """Wait until the device has finished all work."""

    def sleep(self) -> None:
        """Move the weights to host memory and free the device's memory."""

    def wake_up(self) -> None:
        """Move the weights back to the device."""

    def close(self) -> None:
        """Release the model."""


@runtime_checkable
class MemoryFreeingRunner(Runner, Protocol):
    """A runner that makes do with less device memory once it has run out of it."""

    def drain_by(self, drain: Callable[[], bool]) -> None:
        """Call `drain` when a batch has run out of device memory, before anything is done for good.

        It waits until no earlier output occupies device memory, and returns True if one did.
        """

    def free_memory(self) -> str | None:
        """Free device memory for good, between two batches; return a note on how, None if there is nothing left to do.

        Any thread may call it while no batch runs.
        """


@runtime_checkable
class StepwiseRunner(Runner, Protocol):
    """A runner that reports its state after each denoising step and can stop early."""

    def execute_stepwise(self, requests: Sequence[PlannedRequest], on_state: OnState) -> Sequence[Media]:
        """Run one batch like `execute_model`, calling `on_state` after each step from the calling thread.

        When `on_state` returns False, skips the remaining steps and sets `Media.stopped_at` to the last step done.
        """
