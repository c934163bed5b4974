"""What every executor offers: futures made at submit, one pair per request, resolved in whatever order the worker answers."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Protocol, Self

from omni_cli.config import ModelConfig
from omni_cli.executor.feed import Feed
from omni_cli.executor.steering import Steering
from omni_cli.request import Interval, PlannedRequest
from omni_cli.transport.messages import Health, Loaded, MediaHeader

RpcMethod = Literal["synchronize", "health", "drain", "sleep", "wake_up"]


@dataclass(frozen=True, slots=True)
class Output:
    """A request's decoded output in host memory.

    `buffer` holds C-contiguous frames as `header` says (uint8 [N, T, H, W, C], RGB, unless it says otherwise), a view over a
    ring slot: valid until `release` is called, which must happen exactly once. `stopped_at`: the step after which the
    denoising was cut short on request.
    With `pieces`, `buffer` is empty: the frames were in so many pieces that came through the handle's feed.
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


@dataclass(frozen=True, slots=True)
class Handle:
    """One submitted request. Both futures exist before anything is sent.

    `compute_done` resolves to the forward's interval, `output_ready` to the Output. If the forward fails, both carry the
    error. A handle whose futures were cancelled before its call was sent is never sent. `feed` gives the frames of a video that
    leave before it is finished (`EngineConfig.chunked_decode`); pieces that nobody takes hold up the decoder.
    """

    planned: PlannedRequest
    output_id: str
    compute_done: Future[Interval] = field(default_factory=Future)
    output_ready: Future[Output] = field(default_factory=Future)
    feed: Feed = field(default_factory=Feed)


@dataclass(frozen=True, slots=True)
class Preview:
    """What request `id` looks like after `step` of `total`: `pixels` are uint8 RGB [height, width, 3], C-contiguous.

    With `fault`, there are none and there will be none: it says why.
    """

    id: str
    step: int
    total: int
    width: int = 0
    height: int = 0
    pixels: bytes = b""
    fault: str | None = None


OnPreview = Callable[[Preview], None]
"""Takes previews, from the thread that listens to the worker: must return at once."""


@dataclass(frozen=True, slots=True)
class Loading:
    """A model on its way. Both futures give the same facts, or the error that loading ended with.

    `identified` resolves as soon as the facts are known, which may be before the weights are read; `loaded` when every worker
    is ready.
    """

    identified: Future[Loaded] = field(default_factory=Future)
    loaded: Future[Loaded] = field(default_factory=Future)


class Executor(Protocol):
    """Runs pipeline calls on one or more workers."""

    def load(self, model: ModelConfig) -> Loading:
        """Load `model` on every worker. Requests may be submitted at once; they wait for it."""

    def identify(self, model: ModelConfig) -> Future[Loaded | None]:
        """What loading `model` will give, told without its weights; None if only loading tells. Changes nothing that is loaded."""

    def submit(
        self, requests: Sequence[PlannedRequest], steering: Steering | None = None, model: ModelConfig | None = None
    ) -> tuple[Handle, ...]:
        """Queue one pipeline call for `requests`, which share a batch key. Returns at once.

        With `steering` the call goes step by step, as every call does with `step_execution`. In pure step mode this returns when
        the call is over, unless somebody takes its steps.

        If the call needs another `model` than the one before (None: whatever is loaded), it waits until the outputs of all
        earlier calls have come, and every worker has loaded it. If that fails after another model was loaded, such requests
        fail with ModelUnavailable and the others go on.
        """

    def cancel(self, handle: Handle) -> None:
        """Give up a request: unsent calls are dropped, a running one stops at its next step if all its requests are given up."""

    def cancel_waiting(self) -> None:
        """Give up every request whose forward has not begun."""

    def hold(self, held: bool) -> None:
        """Let no call begin that waits here (what a worker has been sent goes on), or let them begin again."""

    def drive(self, until: Callable[[], bool]) -> None:
        """In pure step mode, do on this thread what the pump does elsewhere until `until()`; else return at once."""

    def wake(self) -> None:
        """Let `drive` look at its condition."""

    def collective_rpc(self, method: RpcMethod) -> list[Health | bool | None]:
        """Ask every worker and wait for all answers, in worker order. Raises EngineError if one failed."""

    def check_health(self) -> None:
        """Raise WorkerDied if a worker is gone for good."""

    def close(self) -> None:
        """Let workers finish what is sent, end them, and fail what is left. Nothing remains afterwards. May be called twice."""

    def kill(self) -> None:
        """Like `close`, but at once."""

    def kill_workers(self) -> None:
        """End the processes and nothing else; takes no lock, for a signal handler that is about to leave."""

    def __enter__(self) -> Self:
        """The executor itself."""

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
