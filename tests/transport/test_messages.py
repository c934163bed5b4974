"""Any bytes decode to a message of that direction or raise ProtocolError, never another exception."""

import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import ProtocolError
from omni_cli.request import Interval
from omni_cli.transport import messages as m
from tests.factories import planned

PLANNED = planned("a", index=3, seeds=(1, 2), prompt="\u202ex", extra={"deep": [[{"x": None}]]})
ERROR = m.RemoteError(kind="failed", message="no", traceback="Traceback")
TO_WORKER: list[m.ToWorker] = [
    m.LoadModel(rpc_id=1, model=ModelConfig(), engine=EngineConfig()),
    m.ExecuteModel(rpc_id=2, batch_id="batch-2", requests=(PLANNED,)),
    m.Rpc(rpc_id=3, method="health"),
    m.ReleaseSlot(slot_id=1),
    m.SetThreads(threads=2),
    m.Shutdown(),
]
FROM_WORKER: list[m.FromWorker] = [
    m.Hello(pid=1),
    m.Warned(text="loading m: an odd file"),
    m.Started(rpc_id=2, request_ids=("a",)),
    m.ComputeDone(rpc_id=2, async_output_ids=("batch-2/a",), forward=Interval(1.0, 2.0)),
    m.OutputReady(async_output_id="batch-2/a", error=ERROR, d2h=Interval(2.0, 3.0)),
    m.RpcResult(rpc_id=3, health=m.Health(device_bytes=0, inflight=0, slots=0, slot_bytes=0)),
]
SIDES: dict[str, tuple[Callable[[bytes], object], list[bytes]]] = {
    "worker": (m.decode_to_worker, [m.encode(message) for message in TO_WORKER]),
    "parent": (m.decode_from_worker, [m.encode(message) for message in FROM_WORKER]),
}
DEEP = b"\x91" * 100_000
NESTED = [b"\x81\xa1x" + DEEP, b"\x82\xa4type\xa8Shutdown\xa1x" + DEEP, b"\x82\xa4type\xa5Hello\xa1x" + DEEP]

both_sides = pytest.mark.parametrize("side", SIDES)


def is_message(side: str, data: bytes) -> bool:
    """Return True if `data` decodes; any exception other than ProtocolError fails the test."""
    try:
        SIDES[side][0](data)
    except ProtocolError:
        return False
    return True


@both_sides
def test_every_message_decodes_on_its_side(side: str) -> None:
    assert all(is_message(side, data) for data in SIDES[side][1])


@both_sides
def test_messages_of_the_other_direction_raise(side: str) -> None:
    (other,) = SIDES.keys() - {side}
    assert not any(is_message(side, data) for data in SIDES[other][1])


@both_sides
@pytest.mark.parametrize("data", NESTED, ids=["tag", "to", "from"])
def test_deeply_nested_values_raise(side: str, data: bytes) -> None:
    assert not is_message(side, data)


@both_sides
@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_a_message_or_a_protocol_error(side: str, data: bytes) -> None:
    is_message(side, data)


@both_sides
def test_damaged_messages_decode_or_raise(side: str) -> None:
    dice = random.Random(1)
    whole = SIDES[side][1]
    refused = 0
    for _ in range(5000):
        data = bytearray(dice.choice(whole))
        for _ in range(dice.randint(1, 4)):
            place = dice.randrange(len(data) + 1)
            match dice.randrange(4):
                case 0:
                    data[place : place + 1] = bytes([dice.randrange(256)])
                case 1:
                    del data[place : place + dice.randint(1, 9)]
                case 2:
                    data[place:place] = dice.randbytes(dice.randint(1, 9))
                case _:
                    data[place:place] = msgspec.msgpack.encode(
                        dice.choice([None, -1, 2**64 - 1, 1e308, [], {}, "\u202e"])
                    )
        refused += not is_message(side, bytes(data))
    assert refused > 2500
