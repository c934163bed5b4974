"""The messages between the parent and a worker: one frozen struct per arrow, MessagePack on the wire.

    parent ── Identify, LoadModel, Rpc ──────────────────────────────────> worker   answered by RpcResult
           ── ExecuteModel, ExecuteStepwise, Proceed, Cancel ────────────>          a call, its steps and its end
           ── SetThreads, ReleaseSlot, Shutdown ─────────────────────────>

    parent <── Hello, LoadProgress, Warned, Identified, RpcResult ──────── worker   start and loading
           <── Started, Step, StepOutput, Preview, ComputeDone ───────────          the forward of a call
           <── OutputPiece, OutputReady ──────────────────────────────────          its outputs

There is no pickle: bytes that are not one of these messages raise ProtocolError. msgspec checks the type of every
field. A frozen struct that is no Message (`SlotRef`, `Loaded`, ...) is part of one.
"""

from typing import Literal

import msgspec

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import ProtocolError
from omni_cli.media import MediaHeader
from omni_cli.models.cards import Card
from omni_cli.request import Interval, ModelInfo, PlannedRequest

USAGE_KIND = "usage"
"""`RemoteError.kind` of a setting that cannot work on the worker's machine."""


class RemoteError(msgspec.Struct, frozen=True, kw_only=True):
    """An exception raised in the worker: `kind` as in the manifest row, its text, and the remote traceback."""

    kind: str
    message: str
    traceback: str


class SlotRef(msgspec.Struct, frozen=True, kw_only=True):
    """A payload in shared memory: the first `nbytes` bytes of slot `slot_id`, which has `capacity` bytes.

    `fresh`: the slot's descriptor comes with this message, for the first time.
    `retired`: ids of the slots that the worker has unmapped since the last SlotRef; the parent unmaps them too.
    """

    slot_id: int
    nbytes: int
    capacity: int
    fresh: bool
    retired: tuple[int, ...] = ()


class StepLatents(msgspec.Struct, frozen=True, kw_only=True):
    """The latents after a step, in the pipeline's own layout: C-contiguous float32 of `shape`, in a slot or inline."""

    shape: tuple[int, ...]
    slot: SlotRef | None = None
    inline: bytes | None = None


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A model in a worker: its identity, its card, the device, and the versions of the packages that affect pixels.

    `devices` is the number of devices that the workers may be spread over.
    """

    info: ModelInfo
    card: Card
    device: str
    versions: dict[str, str]
    devices: int = 1


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """State of a worker: device memory in use in bytes (0 if unknown), outputs in flight, slots and their bytes."""

    device_bytes: int
    inflight: int
    slots: int
    slot_bytes: int


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """Base of all messages."""


# ── parent to worker ──


class Identify(Message, frozen=True, kw_only=True):
    """To the worker: find out what loading `model` would give, without reading its weights.

    Answered by RpcResult, whose `loaded` is None if only loading can tell. `worker` is the worker's index.
    """

    rpc_id: int
    worker: int = 0
    model: ModelConfig
    engine: EngineConfig


class LoadModel(Message, frozen=True, kw_only=True):
    """To the worker: load `model` in place of the one before.

    Answered by LoadProgress per step, Identified if that is known early, and RpcResult with `loaded` or `error`.
    `worker` is the worker's index, which chooses its device.
    """

    rpc_id: int
    worker: int = 0
    model: ModelConfig
    engine: EngineConfig


class ExecuteModel(Message, frozen=True, kw_only=True):
    """To the worker: run one pipeline call for `requests`.

    Answered by Started, a Step now and then, ComputeDone, and one OutputReady per request, each perhaps after
    OutputPieces. A call that is cancelled or fails is answered by ComputeDone with `error` alone.
    """

    rpc_id: int
    batch_id: str
    requests: tuple[PlannedRequest, ...]


class ExecuteStepwise(Message, frozen=True, kw_only=True):
    """To the worker: as ExecuteModel, but after each denoising step send StepOutput and wait for Proceed or Cancel.

    `latents`: send the latents with each StepOutput.
    """

    rpc_id: int
    batch_id: str
    requests: tuple[PlannedRequest, ...]
    latents: bool = False


class Proceed(Message, frozen=True, kw_only=True):
    """To the worker, in answer to the StepOutput of `step`: go on, or with `stop` decode the latents as they are."""

    rpc_id: int
    step: int
    stop: bool = False


class Rpc(Message, frozen=True, kw_only=True):
    """To the worker: do `method` once the calls sent before are done. Answered by RpcResult."""

    rpc_id: int
    method: Literal["synchronize", "health", "drain", "sleep", "wake_up"]


class Cancel(Message, frozen=True, kw_only=True):
    """To the worker, at any time: do not start the call `rpc_id`, or stop it after its current step."""

    rpc_id: int


class SetThreads(Message, frozen=True, kw_only=True):
    """To the worker: compute the calls that follow with `threads` intra-op threads. Not answered."""

    threads: int


class ReleaseSlot(Message, frozen=True, kw_only=True):
    """To the worker: the slot may be written again. Sent once for each SlotRef, and not answered."""

    slot_id: int


class Shutdown(Message, frozen=True, kw_only=True):
    """To the worker: finish what is in flight, then exit. Not answered."""


ToWorker = (
    Identify | LoadModel | ExecuteModel | ExecuteStepwise | Proceed | Rpc | Cancel | SetThreads | ReleaseSlot | Shutdown
)


# ── worker to parent ──


class Hello(Message, frozen=True, kw_only=True):
    """From the worker, first: process `pid` has started and has its channel."""

    pid: int


class LoadProgress(Message, frozen=True, kw_only=True):
    """From the worker, while it starts or loads: `what` it is loading, for display."""

    what: str


class Warned(Message, frozen=True, kw_only=True):
    """From the worker, at any time: a warning of the worker or, from loading, of the libraries; for display."""

    text: str


class Identified(Message, frozen=True, kw_only=True):
    """From the worker, during LoadModel and before the weights are read: what RpcResult will return as `loaded`."""

    rpc_id: int
    loaded: Loaded


class Started(Message, frozen=True, kw_only=True):
    """From the worker: the forward of these requests begins. If it dies now, they are the ones that it was running.

    `threads`: the intra-op threads that the forward has, if the device is a CPU.
    """

    rpc_id: int
    request_ids: tuple[str, ...]
    threads: int | None = None


class Step(Message, frozen=True, kw_only=True):
    """From the worker, during ExecuteModel, 20 per second at most: step `step` of `total`, from 1, is done."""

    rpc_id: int
    step: int
    total: int


class StepOutput(Message, frozen=True, kw_only=True):
    """From the worker, during ExecuteStepwise: denoising step `step` of `total`, from 1, is done on the device.

    Answered by Proceed or Cancel, for which the worker waits.
    `timestep` is the step's own, `sigma` the noise level left after it, in the scheduler's units; None if unknown.
    """

    rpc_id: int
    step: int
    total: int
    timestep: float | None = None
    sigma: float | None = None
    latents: StepLatents | None = None


class Preview(Message, frozen=True, kw_only=True):
    """From the worker, with previews switched on: a picture of a request after step `step` of `total`.

    `pixels` is uint8 RGB [height, width, 3]; `fault` is set in its place if there will be no (more) previews.
    """

    rpc_id: int
    request_id: str
    step: int
    total: int
    width: int = 0
    height: int = 0
    pixels: bytes = b""
    fault: str | None = None


class ComputeDone(Message, frozen=True, kw_only=True):
    """From the worker: the forward of a call is over. Sent once per call, cancelled or not.

    `async_output_ids`: `{batch_id}/{request_id}` for each request; empty if the forward failed with `error`.
    `forward`: host time of the forward. `launched`: it covers only the launch of the kernels; each OutputReady has the
    device's time.
    """

    rpc_id: int
    async_output_ids: tuple[str, ...]
    forward: Interval
    launched: bool = False
    error: RemoteError | None = None


class OutputPiece(Message, frozen=True, kw_only=True):
    """From the worker, even before ComputeDone: the next frames of an unfinished video. Answered by ReleaseSlot.

    The frames begin at frame `first_frame` of sample `first_sample`. Frame 0 starts a sample anew: earlier pieces of it
    are void.
    """

    async_output_id: str
    first_sample: int
    first_frame: int
    header: MediaHeader
    slot: SlotRef


class OutputReady(Message, frozen=True, kw_only=True):
    """From the worker, once per request: its output is in host memory, or has failed with `error`.

    Answered by ReleaseSlot if it is in a slot.

    The output is in `slot`, in `inline`, or in the `pieces` pieces sent before (`piece_bytes` bytes in all).
    `d2h`: host time of conversion and copy. `forward`: the forward's time by device events, where the device has them.
    `host_copies`: copies of the payload from host memory to host memory on its way to the parent.
    `stopped_at`: the step after which denoising was cut short on request.
    """

    async_output_id: str
    header: MediaHeader | None = None
    slot: SlotRef | None = None
    inline: bytes | None = None
    pieces: int = 0
    piece_bytes: int = 0
    error: RemoteError | None = None
    d2h: Interval
    forward: Interval | None = None
    host_copies: int = 0
    stopped_at: int | None = None
    notes: tuple[str, ...] = ()


class RpcResult(Message, frozen=True, kw_only=True):
    """From the worker, in answer to Identify, LoadModel or Rpc: the field of that method, or the error that it raised.

    `loaded` answers Identify and LoadModel, `health` health, `drained` drain and sleep: False if outputs were still in
    flight.
    """

    rpc_id: int
    loaded: Loaded | None = None
    health: Health | None = None
    drained: bool | None = None
    error: RemoteError | None = None


FromWorker = (
    Hello
    | LoadProgress
    | Warned
    | Identified
    | Started
    | Step
    | StepOutput
    | Preview
    | ComputeDone
    | OutputPiece
    | OutputReady
    | RpcResult
)

_encoder = msgspec.msgpack.Encoder()
_to_worker = msgspec.msgpack.Decoder(ToWorker)
_from_worker = msgspec.msgpack.Decoder(FromWorker)

_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What the decoder raises for bytes that are not a message; RecursionError for values nested a thousand deep."""


def encode(message: ToWorker | FromWorker) -> bytes:
    """Return the bytes of `message`."""
    return _encoder.encode(message)


def decode_to_worker(data: bytes | bytearray) -> ToWorker:
    """Return the message in `data`. Raises ProtocolError if it is not one to a worker."""
    try:
        return _to_worker.decode(data)
    except _DECODE_ERRORS as error:
        raise ProtocolError(f"a message to the worker cannot be decoded: {error}") from error


def decode_from_worker(data: bytes | bytearray) -> FromWorker:
    """Return the message in `data`. Raises ProtocolError if it is not one from a worker."""
    try:
        return _from_worker.decode(data)
    except _DECODE_ERRORS as error:
        raise ProtocolError(f"a message from the worker cannot be decoded: {error}") from error
