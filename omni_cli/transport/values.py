"""What messages carry: errors, places in memory, facts of a model and of a worker."""

import msgspec

from omni_cli.models.cards import Card
from omni_cli.request import ModelInfo

USAGE_KIND = "usage"
"""`RemoteError.kind` of a setting that cannot be used on the worker's machine."""


STANDING = "still in force: "
"""How a note begins that repeats what an earlier output has told: every row concerned has it, people are told once."""


class RemoteError(msgspec.Struct, frozen=True, kw_only=True):
    """An exception of the worker: `kind` as in the row, the exception's own text, and the remote traceback."""

    kind: str
    message: str
    traceback: str


class SlotRef(msgspec.Struct, frozen=True, kw_only=True):
    """Where a payload lies: the first `nbytes` of slot `slot_id`. `fresh`: its descriptor (of `capacity` bytes)
    comes along. `retired`: slots that the worker has given up since, to be unmapped.
    """

    slot_id: int
    nbytes: int
    capacity: int
    fresh: bool
    retired: tuple[int, ...] = ()


class StepLatents(msgspec.Struct, frozen=True, kw_only=True):
    """The latents after a step: C-contiguous float32 of `shape`, as the pipeline keeps them, in a slot or inline."""

    shape: tuple[int, ...]
    slot: SlotRef | None = None
    inline: bytes | None = None


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What LoadModel gives: the model's facts for the row, its card, the device, and the versions that make pixels."""

    info: ModelInfo
    card: Card
    device: str
    versions: dict[str, str]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself: bytes of device memory in use (0 where not known), outputs in flight, slots."""

    device_bytes: int
    inflight: int
    slots: int
    slot_bytes: int
