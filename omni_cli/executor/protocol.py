"""The interface of every executor, and the records that it returns."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Protocol, Self

from omni_cli.config import ModelConfig
from omni_cli.executor.frame_stream import FrameStream
from omni_cli.executor.step_controller import StepController
from omni_cli.media import MediaHeader
from omni_cli.request import UNNAMED_DEVICE, ExecutedOn, Interval, PlannedRequest
from omni_cli.transport.messages import Health, Loaded

RpcMethod = Literal["synchronize", "health", "drain", "sleep", "wake_up"]


@dataclass(frozen=True, slots=True)
class Output:
    """A request's decoded output in host memory.

    `buffer` holds C-contiguous frames as `header` describes them (uint8 [N, T, H, W, C], RGB, by default). It is a view
    over a ring slot and valid until `release` is called, which must happen exactly once. With `pieces` > 0 it is empty:
    the frames came as that many pieces through the handle's frame stream.

    `worker` is an index. `executed_on` names that worker's device ("" if it is that of the loaded model). `attempts`
    counts the forwards that were started. `stopped_at` is the step after which a stop ended the denoising.
    """

    header: MediaHeader
    buffer: memoryview
    release: Callable[[], None]
    queued: Interval
    forward: Interval
    d2h: Interval
    worker: int = 0
    attempts: int = 1
    stopped_at: int | None = None
    notes: tuple[str, ...] = ()
    pieces: int = 0
    executed_on: ExecutedOn = UNNAMED_DEVICE


@dataclass(frozen=True, slots=True)
class Handle:
    """One submitted request. Both futures exist before anything is sent.

    `compute_done` resolves to the forward's interval, `output_ready` to the Output. If the forward fails, both raise
    its error. A request whose `output_ready` was cancelled before its call was sent is left out of the call.
    `frame_stream` carries the frames of a video that arrive before it is complete (`EngineConfig.chunked_decode`);
    unreleased frames block the decoder.
    """

    planned: PlannedRequest
    output_id: str
    compute_done: Future[Interval] = field(default_factory=Future)
    output_ready: Future[Output] = field(default_factory=Future)
    frame_stream: FrameStream = field(default_factory=FrameStream)


@dataclass(frozen=True, slots=True)
class PreviewImage:
    """The preview of request `id` after step `step` of `total`.

    `pixels` are uint8 RGB [height, width, 3], C-contiguous. `fault` is the reason why there is no picture, and why none
    will follow.
    """

    id: str
    step: int
    total: int
    width: int = 0
    height: int = 0
    pixels: bytes = b""
    fault: str | None = None


OnPreview = Callable[[PreviewImage], None]
"""Callback for previews. It runs on the thread that reads worker messages, so it must return at once."""


@dataclass(frozen=True, slots=True)
class LoadHandle:
    """A model that is being loaded. Both futures resolve to the same facts, or raise the error that ended the loading.

    `identified` resolves as soon as the facts are known, possibly before the weights are read; `loaded` when every
    worker is ready.
    """

    identified: Future[Loaded] = field(default_factory=Future)
    loaded: Future[Loaded] = field(default_factory=Future)


OnFacts = Callable[[ModelConfig, Loaded], None]
"""Callback for what a worker reports of a model. It runs on the thread that reads worker messages."""


def ignore(handle: "Handle") -> None:
    """Do nothing with a handle."""


class Executor(Protocol):
    """Runs pipeline calls on one or more workers.

    `cancel`, `pause_dispatch`, `pump_until` and `abort` act on calls that are queued or running after `submit` has
    returned. An executor whose `submit` returns when the call is over has none, and inherits them as they are here.
    """

    @abstractmethod
    def load(self, model: ModelConfig) -> LoadHandle:
        """Start to load `model` on every worker. Requests may be submitted at once; they wait for it."""

    @abstractmethod
    def identify(self, model: ModelConfig) -> Future[Loaded | None]:
        """Return the facts that loading `model` would give, without reading its weights.

        The result is None if only loading gives them. The loaded model stays loaded.
        """

    @abstractmethod
    def submit(
        self,
        requests: Sequence[PlannedRequest],
        step_controller: StepController | None = None,
        model: ModelConfig | None = None,
        expect: Callable[[Handle], object] = ignore,
    ) -> tuple[Handle, ...]:
        """Queue one pipeline call for `requests`, which share a batch key, and return at once.

        With `step_controller` the call is executed step by step, as every call is with `EngineConfig.step_execution`.
        In pure step mode this returns when the call is over, unless the controller is paced or paused.

        `expect` is called with each handle before any output is waited for: outputs whose slots nobody releases would
        hold up those behind them.

        A call that needs another `model` than the call before (None: whatever is loaded) waits until all earlier
        outputs have arrived and every worker has loaded it. If loading fails after another model was loaded, the
        requests of `model` fail with ModelUnavailable and the others go on.

        Raises EngineError or WorkerDied after the executor has ended.
        """

    @abstractmethod
    def expect(self, model: ModelConfig, facts: Loaded) -> None:
        """End with an error before any forward of `model` if a worker reports other facts of it than `facts`.

        Workers may differ in their devices. What a worker has already reported stands.
        """

    def cancel(self, handle: Handle | None = None) -> None:
        """Cancel one request, or without `handle` every request whose forward has not begun.

        Calls that were not sent are dropped. A running call stops at its next step once all its requests are cancelled.
        Without `handle`, a call whose worker dies before the next submit is cancelled rather than run again.
        """
        return

    def pause_dispatch(self, paused: bool) -> None:
        """Stop sending queued calls to workers, or with False send them again. Calls that were sent go on."""
        return

    def pump_until(self, condition: Callable[[], bool]) -> None:
        """In pure step mode, handle worker messages on this thread until `condition()`; otherwise return at once.

        `condition` is evaluated after every message and after every `cancel`.
        """
        return

    def scale(self, workers: int, threads: int | None = None) -> Future[None]:
        """Run on `workers` workers from now on, where fewer have been started; the new ones load the model.

        With `threads`, all of them compute the calls that follow with so many intra-op threads. A new worker that
        cannot load the model is given up with a warning. The result is there when no worker is loading any more.
        Raises EngineError if a process cannot be started.
        """
        scaled: Future[None] = Future()
        scaled.set_result(None)
        return scaled

    @abstractmethod
    def collective_rpc(self, method: RpcMethod) -> list[Health | bool | None]:
        """Call `method` on every worker and return the answers in worker order.

        Raises EngineError if a call failed or the executor has ended, WorkerDied if a worker died.
        """

    def abort(self) -> None:
        """Kill the workers and cancel every request whose output has not arrived; nothing can be submitted any more."""
        return

    @abstractmethod
    def shutdown(self, wait: bool = True) -> None:
        """End the workers. May be called twice.

        With `wait`, let them finish the calls they were sent, reap them, and fail the requests that are left: no
        process, thread or descriptor remains. Without, only kill them: this takes no lock, so it may be called while
        other threads hang, and a later `shutdown()` does the rest at once.
        """

    def __enter__(self) -> Self:
        """Return the executor itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Shut down; after an exception, without waiting for running calls."""
        if kind is not None:
            self.shutdown(wait=False)
        self.shutdown()
