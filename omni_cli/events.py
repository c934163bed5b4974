"""What happened during a run, as data. The batch emits these; the view shows them, `--progress json` prints them.

An event is emitted from whichever thread saw it happen, so an observer must be thread-safe and must return at once.
Times are seconds of the system-wide monotonic clock (see `request.Interval`).
"""

from collections.abc import Callable

import msgspec

from omni_cli.request import Interval, Result

EVENT_VERSION = 1


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base: every event carries the clock at which it was made."""

    at: float


class RunStarted(Event, frozen=True, kw_only=True, tag="run_started"):
    """`total` requests are to be rendered (None: not known yet), `skipped` were already done by an earlier run."""

    version: int = EVENT_VERSION
    total: int | None
    skipped: int
    model: str
    output_dir: str


class ModelLoading(Event, frozen=True, kw_only=True, tag="model_loading"):
    """A step of loading: `what` names the part, for people."""

    worker: int
    what: str


class ModelReady(Event, frozen=True, kw_only=True, tag="model_ready"):
    """The model is loaded; `seconds` from process start to ready."""

    worker: int
    pipeline: str
    device: str
    dtype: str
    seconds: float


class ModelSwitched(Event, frozen=True, kw_only=True, tag="model_switched"):
    """Every worker has finished what it had in hand and loads `model`, in place of the one before."""

    model: str


class ForwardStarted(Event, frozen=True, kw_only=True, tag="forward_started"):
    """The worker took these requests off its inbox."""

    worker: int
    ids: tuple[str, ...]


class ForwardStep(Event, frozen=True, kw_only=True, tag="forward_step"):
    """Denoising step `step` of `total` (counted from 1) has finished for these requests.

    In step mode, `timestep` is the one that was done and `sigma` the noise level that is left, in the scheduler's units.
    """

    worker: int
    ids: tuple[str, ...]
    step: int
    total: int
    timestep: float | None = None
    sigma: float | None = None


class PreviewWritten(Event, frozen=True, kw_only=True, tag="preview_written"):
    """A picture of what the request looks like after `step` of `total`; `path` is POSIX, relative to the output folder."""

    id: str
    path: str
    step: int
    total: int


class ForwardDone(Event, frozen=True, kw_only=True, tag="forward_done"):
    """COMPUTE_DONE for these requests; `forward` is the time of the forward pass."""

    worker: int
    ids: tuple[str, ...]
    forward: Interval


class OutputReady(Event, frozen=True, kw_only=True, tag="output_ready"):
    """OUTPUT_READY: the output is in host memory.

    `d2h` covers conversion and copy. `bytes` were moved from device to host, `copied` from host memory to host memory.
    """

    worker: int
    id: str
    d2h: Interval
    bytes: int
    copied: int = 0


class EncodeStarted(Event, frozen=True, kw_only=True, tag="encode_started"):
    """A writer has begun with the files of this request."""

    id: str


class EncodeDone(Event, frozen=True, kw_only=True, tag="encode_done"):
    """Files are in place; `encode` is time in the encoder, `write` the fsync and rename."""

    id: str
    encode: Interval
    write: Interval


class RequestFinished(Event, frozen=True, kw_only=True, tag="request_finished"):
    """Terminal event of a request: its manifest row."""

    result: Result


class Note(Event, frozen=True, kw_only=True, tag="note"):
    """One line for people: a warning, a fall-back taken, a worker restarted."""

    level: str
    text: str


class RunFinished(Event, frozen=True, kw_only=True, tag="run_finished"):
    """Always the last event. `seconds` is wall time after the model was ready; the shares are of 0 to 1, None if unknown."""

    version: int = EVENT_VERSION
    exit_code: int
    done: int
    failed: int
    cancelled: int
    skipped: int
    not_run: int
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
    | OutputReady
    | EncodeStarted
    | EncodeDone
    | RequestFinished
    | Note
    | RunFinished
)

Observer = Callable[[AnyEvent], None]
