"""The messages between the parent and a worker: one frozen struct per arrow, two closed unions, MessagePack on the wire.

    parent ── Identify · LoadModel · ExecuteModel · ExecuteStepwise · Proceed · Rpc · Cancel · ReleaseSlot · Shutdown ──> worker
    parent <── Hello · Loading · Identified · Started · Step · StepOutput · Preview · ComputeDone · OutputPiece · OutputReady · RpcResult ── worker

No pickle: a message that is not one of these cannot be decoded, and says so. msgspec checks every field's type.
"""

from typing import Literal

import msgspec

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import ProtocolError
from omni_cli.media import MediaHeader as MediaHeader
from omni_cli.request import Interval, PlannedRequest
from omni_cli.transport.values import STANDING as STANDING
from omni_cli.transport.values import USAGE_KIND as USAGE_KIND
from omni_cli.transport.values import Health as Health
from omni_cli.transport.values import Loaded as Loaded
from omni_cli.transport.values import RemoteError as RemoteError
from omni_cli.transport.values import SlotRef as SlotRef
from omni_cli.transport.values import StepLatents as StepLatents


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """Base of all messages."""


# ── to the worker ──


class Identify(Message, frozen=True, kw_only=True):
    """Say what LoadModel would say of `model`, reading no weights; answered by RpcResult, without a value if only loading tells."""

    rpc_id: int
    worker: int = 0
    model: ModelConfig
    engine: EngineConfig


class LoadModel(Message, frozen=True, kw_only=True):
    """Load `model`; answered by RpcResult with a Loaded value. `worker` is the index of the worker among its peers."""

    rpc_id: int
    worker: int = 0
    model: ModelConfig
    engine: EngineConfig


class ExecuteModel(Message, frozen=True, kw_only=True):
    """Run one pipeline call for `requests`; answered by Started, Step…, ComputeDone, then one OutputReady per request."""

    rpc_id: int
    batch_id: str
    requests: tuple[PlannedRequest, ...]


class ExecuteStepwise(Message, frozen=True, kw_only=True):
    """Like ExecuteModel, but in place of Step comes StepOutput, and the worker goes on when its Proceed (or a Cancel) comes.

    `latents`: each StepOutput brings them along.
    """

    rpc_id: int
    batch_id: str
    requests: tuple[PlannedRequest, ...]
    latents: bool = False


class Proceed(Message, frozen=True, kw_only=True):
    """The answer to the StepOutput of `step`: go on; with `stop`, skip the steps that are left and decode what there is."""

    rpc_id: int
    step: int
    stop: bool = False


class Rpc(Message, frozen=True, kw_only=True):
    """Everything that is not execution; answered by RpcResult."""

    rpc_id: int
    method: Literal["synchronize", "health", "drain", "sleep", "wake_up"]


class Cancel(Message, frozen=True, kw_only=True):
    """Do not start this batch, or stop it at its next step."""

    rpc_id: int


class ReleaseSlot(Message, frozen=True, kw_only=True):
    """The parent no longer reads the slot."""

    slot_id: int


class Shutdown(Message, frozen=True, kw_only=True):
    """Finish what is in flight, then leave."""


ToWorker = Identify | LoadModel | ExecuteModel | ExecuteStepwise | Proceed | Rpc | Cancel | ReleaseSlot | Shutdown


# ── from the worker ──


class Hello(Message, frozen=True, kw_only=True):
    """First message: the process is up and has its channel."""

    pid: int


class Loading(Message, frozen=True, kw_only=True):
    """A step of loading, for people."""

    what: str


class Identified(Message, frozen=True, kw_only=True):
    """What RpcResult will say of the model when it is loaded, told before its weights are."""

    rpc_id: int
    loaded: Loaded


class Started(Message, frozen=True, kw_only=True):
    """The forward of these requests begins: if the worker dies now, these were running."""

    rpc_id: int
    request_ids: tuple[str, ...]


class Step(Message, frozen=True, kw_only=True):
    """Denoising step `step` of `total`, counted from 1, is done."""

    rpc_id: int
    step: int
    total: int


class ComputeDone(Message, frozen=True, kw_only=True):
    """The forward is over. One id per request, `{batch_id}/{request_id}`; empty and `error` set if it failed.

    `launched`: `forward` is the time in which the kernels were launched; each OutputReady will bring the device's own.
    """

    rpc_id: int
    async_output_ids: tuple[str, ...]
    forward: Interval
    launched: bool = False
    error: RemoteError | None = None


class StepOutput(Message, frozen=True, kw_only=True):
    """Denoising step `step` of `total`, counted from 1, is done on the device; nothing goes on before the Proceed.

    `timestep` is the one that was done, `sigma` the noise level that is left, in the scheduler's units; None where not known.
    """

    rpc_id: int
    step: int
    total: int
    timestep: float | None = None
    sigma: float | None = None
    latents: StepLatents | None = None


class Preview(Message, frozen=True, kw_only=True):
    """What a request looks like after `step` of `total`: uint8 RGB [height, width, 3], or the reason why there will be none."""

    rpc_id: int
    request_id: str
    step: int
    total: int
    width: int = 0
    height: int = 0
    pixels: bytes = b""
    fault: str | None = None


class OutputPiece(Message, frozen=True, kw_only=True):
    """Frames of an unfinished video are in host memory. They come in order; frame 0 begins a sample anew and voids what came before."""

    async_output_id: str
    first_sample: int
    first_frame: int
    header: MediaHeader
    slot: SlotRef


class OutputReady(Message, frozen=True, kw_only=True):
    """One request's output is in host memory: in a slot, inline, or in the `pieces` that came before (`piece_bytes` in all; pieces
    that are not named are void). Or it failed.

    `d2h` covers conversion and copy. `forward` is the forward's time by device events, where the device has them: the time in
    ComputeDone is when the kernels were launched. `host_copies` counts how often the payload is copied
    from host memory to host memory on its way to the parent. `stopped_at`: the step after which the denoising was cut short.
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
    """Answer to LoadModel or Rpc."""

    rpc_id: int
    loaded: Loaded | None = None
    health: Health | None = None
    drained: bool | None = None
    error: RemoteError | None = None


FromWorker = (
    Hello
    | Loading
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

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What the decoder raises for bytes that are no message; the last one for values nested a thousand deep."""


def encode(message: ToWorker | FromWorker) -> bytes:
    """Bytes of a message."""
    return _encoder.encode(message)


def decode_to_worker(data: bytes | bytearray) -> ToWorker:
    """The message in `data`; ProtocolError if it is not one that a worker takes."""
    try:
        return _to_worker.decode(data)
    except _UNREADABLE as error:
        raise ProtocolError(f"a message to the worker cannot be read: {error}") from error


def decode_from_worker(data: bytes | bytearray) -> FromWorker:
    """The message in `data`; ProtocolError if it is not one that a worker sends."""
    try:
        return _from_worker.decode(data)
    except _UNREADABLE as error:
        raise ProtocolError(f"a message from the worker cannot be read: {error}") from error
