"""What a worker asks of the thing that runs the model. All methods but `expect` are called from the worker's main thread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.media import Media, MediaSpec
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


@dataclass(frozen=True, slots=True)
class Picture:
    """A preview of one request: `owner` is its place in the call, `pixels` uint8 RGB [H, W, 3] on the device, perhaps still computing."""

    owner: int
    pixels: Any


@dataclass(frozen=True, slots=True)
class StepState:
    """A step that is done, or asked for on the device: `step` of `total`, counted from 1.

    `timestep` is a number or a tensor of one (reading it may wait for the device), `sigma` the noise level that is left.
    `latents` are the pipeline's own, on the device. `pictures` are the previews that are due, `fault` why there will be none.
    """

    step: int
    total: int
    timestep: Any | None = None
    sigma: float | None = None
    latents: Any | None = None
    pictures: tuple[Picture, ...] = ()
    fault: str | None = None


OnState = Callable[[StepState], bool]
"""Takes every step; False: no more of them, decode what there is. May raise RequestCancelled."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """An output that went to the Sink, all of it: `shape` is [N, T, H, W, C]; `notes` and `stopped_at` as those of a Media."""

    spec: MediaSpec
    shape: tuple[int, int, int, int, int]
    notes: tuple[str, ...] = ()
    stopped_at: int | None = None


class Sink(Protocol):
    """Takes the frames of one batch's videos as they are decoded."""

    def send(self, owner: int, media: Media) -> None:
        """`media` are the next frames of request number `owner`, from `media.first` on; frame 0 begins a sample anew.

        Waits while there is no room for them. Raises the RequestError that has ended every request of the batch.
        """


class Runner(Protocol):
    """A model in memory. `identify` may come at any time; `load` comes first; `execute_model` any number of times; `close` last."""

    def identify(self, model: ModelConfig, report: Report) -> Loaded | None:
        """What `load` would return, without reading weights or touching the model in memory; None if only loading tells."""

    def load(
        self, model: ModelConfig, engine: EngineConfig, report: Report, identified: Identified | None = None
    ) -> Loaded:
        """Load `model`; ModelLoadError says what to do when that fails.

        `identified` is told what this will return as soon as that is known, if it is known before the weights are loaded.
        """

    def expect(self, requests: Sequence[PlannedRequest]) -> None:
        """These have arrived and will be executed in their turn: their inputs may be read now. From any thread."""

    def forget(self, requests: Sequence[PlannedRequest]) -> None:
        """These, which were expected, are over, or will not be executed."""

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: OnStep, stop: Stop
    ) -> Sequence[Media | Streamed]:
        """One checked Media per request, in order; its batch axis is the request's outputs. May still be computing on the device.

        Streamed in place of it only for what a StreamingRunner was given a Sink for.

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


@runtime_checkable
class StepwiseRunner(Runner, Protocol):
    """A runner that can be led step by step, and sketch what it is at."""

    def execute_stepwise(self, requests: Sequence[PlannedRequest], on_state: OnState) -> Sequence[Media | Streamed]:
        """As `execute_model`, with every step told to `on_state` from the calling thread.

        Where that says no, the rest of the denoising is skipped and `Media.stopped_at` says after which step.
        """


@runtime_checkable
class StreamingRunner(Runner, Protocol):
    """A runner whose frames may leave before it is done."""

    def stream_to(self, sink: Sink | None) -> None:
        """Where the frames of the next `execute_model` may go; None: nowhere, its media are wanted whole."""
