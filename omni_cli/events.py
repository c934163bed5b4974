"""Events of a run. The batch and the executor emit them, views show them, `--progress json` prints them.

An event is emitted on the thread where it happened, so an observer must be thread-safe and must not block.
Times are seconds of the system-wide monotonic clock (see `request.Interval`).
"""

from collections.abc import Callable

import msgspec

from omni_cli.request import Interval, Result

EVENT_VERSION = 1


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base of all events. `at` is the time of emission."""

    at: float


class RunStarted(Event, frozen=True, kw_only=True, tag="run_started"):
    """The run begins: `total` requests to render (None: not known yet), `skipped` done by an earlier run."""

    version: int = EVENT_VERSION
    total: int | None
    skipped: int
    model: str
    output_dir: str


class ModelLoading(Event, frozen=True, kw_only=True, tag="model_loading"):
    """A part of loading has begun: `what` names it for people."""

    worker: int
    what: str


class ModelReady(Event, frozen=True, kw_only=True, tag="model_ready"):
    """The model is loaded. `seconds` counts from the start of the process."""

    worker: int
    pipeline: str
    device: str
    dtype: str
    seconds: float


class ModelSwitched(Event, frozen=True, kw_only=True, tag="model_switched"):
    """Every worker has finished its calls and loads `model` in place of the previous one."""

    model: str


class ForwardStarted(Event, frozen=True, kw_only=True, tag="forward_started"):
    """The worker began the forward of these requests."""

    worker: int
    ids: tuple[str, ...]


class ForwardStep(Event, frozen=True, kw_only=True, tag="forward_step"):
    """Denoising step `step` of `total`, counted from 1, is done for these requests.

    In step mode, `timestep` is the timestep of this step and `sigma` the remaining noise level, in the scheduler's
    units.
    """

    worker: int
    ids: tuple[str, ...]
    step: int
    total: int
    timestep: float | None = None
    sigma: float | None = None


class PreviewWritten(Event, frozen=True, kw_only=True, tag="preview_written"):
    """A preview after `step` of `total` is written. `path` is POSIX and relative to the output folder."""

    id: str
    path: str
    step: int
    total: int


class ForwardDone(Event, frozen=True, kw_only=True, tag="forward_done"):
    """COMPUTE_DONE of these requests, once per pipeline call. `forward` is the time of the forward pass.

    A device that works asynchronously has timed it itself; the event then comes with the first output of the call.
    """

    worker: int
    ids: tuple[str, ...]
    forward: Interval


class OutputArrived(Event, frozen=True, kw_only=True, tag="output_ready"):
    """OUTPUT_READY: the output is in host memory.

    `d2h` covers conversion and copy. `bytes` is the number copied from device to host, `copied` from host to host.
    """

    worker: int
    id: str
    d2h: Interval
    bytes: int
    copied: int = 0


class EncodeStarted(Event, frozen=True, kw_only=True, tag="encode_started"):
    """A writer began to encode the files of this request."""

    id: str


class EncodeDone(Event, frozen=True, kw_only=True, tag="encode_done"):
    """The files are in place. `encode` is the time in the encoder, `write` that of fsync and rename."""

    id: str
    encode: Interval
    write: Interval


class RequestFinished(Event, frozen=True, kw_only=True, tag="request_finished"):
    """Last event of a request, with its manifest row."""

    result: Result


class Note(Event, frozen=True, kw_only=True, tag="note"):
    """A line for people: a warning, a fallback taken, a worker restarted. `level`: "info", "warning" or "error"."""

    level: str
    text: str


class RunStopping(Event, frozen=True, kw_only=True, tag="run_stopping"):
    """A stop was requested: no new forwards begin, those that run are finished.

    `seconds` is how long that takes at most, 0 if none runs, None if unknown; an estimate unless `is_limit`, a limit
    that the user has set.
    """

    seconds: float | None
    is_limit: bool = False


class RunFinished(Event, frozen=True, kw_only=True, tag="run_finished"):
    """Last event of a run.

    `with_notes` counts the done requests whose rows have notes.
    `seconds` is wall time after the model was ready. `output_hidden` and `device_idle` are shares from 0 to 1,
    `longest_gap` is in seconds; None if unknown.
    """

    version: int = EVENT_VERSION
    exit_code: int
    done: int
    failed: int
    cancelled: int
    skipped: int
    not_run: int
    with_notes: int = 0
    seconds: float
    output_hidden: float | None
    device_idle: float | None
    longest_gap: float | None
    reason: str | None = None


AnyEvent = (
    RunStarted
    | ModelLoading
    | ModelReady
    | ModelSwitched
    | ForwardStarted
    | ForwardStep
    | PreviewWritten
    | ForwardDone
    | OutputArrived
    | EncodeStarted
    | EncodeDone
    | RequestFinished
    | Note
    | RunStopping
    | RunFinished
)

Observer = Callable[[AnyEvent], None]
