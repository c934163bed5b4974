"""An output is a view over a ring slot that its worker owns; messages that name other memory are refused."""

import os
from collections.abc import Iterator

import pytest

from omni_cli.errors import ProtocolError
from omni_cli.executor.call import RequestEntry
from omni_cli.executor.outputs import map_output, to_output
from omni_cli.executor.protocol import Handle
from omni_cli.executor.worker_handle import WorkerHandle, start_worker
from omni_cli.request import Interval
from omni_cli.transport import messages as m
from omni_cli.transport.ring import anonymous_memory
from tests.executor.fake_worker import D2H, FORWARD, HEADER, PIXELS, FakeWorker, Harness, error
from tests.factories import planned_call


@pytest.fixture
def fake(handle: WorkerHandle, harness: Harness) -> FakeWorker:
    """Return the worker's end."""
    return harness.next()


@pytest.fixture
def handle(harness: Harness) -> Iterator[WorkerHandle]:
    """Start a worker and return the parent's end."""
    handle = start_worker(3, 0.0, harness.command)
    yield handle
    handle.process.wait_or_kill(0)
    handle.close()


def output_ready(**fields: object) -> m.OutputReady:
    return m.OutputReady(**{"async_output_id": "batch-1/a", "header": HEADER, "d2h": D2H, **fields})  # type: ignore[arg-type]


def test_slot_is_read_in_place_and_released_to_its_worker(handle: WorkerHandle, fake: FakeWorker) -> None:
    slot = fake.pool.acquire(len(PIXELS))
    slot.memory[: len(PIXELS)] = PIXELS
    buffer, release = map_output(handle, output_ready(slot=slot.ref(len(PIXELS), ())), [os.dup(slot.fd)])
    assert (bytes(buffer), buffer.readonly) == (PIXELS, True)
    slot.memory[0] = 200
    assert buffer[0] == 200
    release()
    assert fake.expect(m.ReleaseSlot).slot_id == slot.id
    del buffer


def test_releasing_an_inline_output_or_an_error_sends_nothing(handle: WorkerHandle, fake: FakeWorker) -> None:
    for message, expected in (
        (output_ready(inline=PIXELS), PIXELS),
        (output_ready(header=None, error=error()), b""),
    ):
        buffer, release = map_output(handle, message, [])
        release()
        assert bytes(buffer) == expected
    assert fake.has_no_message()


def test_releasing_a_slot_of_a_dead_worker_is_no_error(handle: WorkerHandle, fake: FakeWorker) -> None:
    slot = fake.pool.acquire(1)
    _, release = map_output(handle, output_ready(slot=slot.ref(1, ())), [os.dup(slot.fd)])
    fake.channel.close()
    release()
    handle.channel.close()
    release()


REFUSED = {
    "neither output nor error": {},
    "no header": {"header": None, "inline": PIXELS},
    "slot that was never sent": {"slot": m.SlotRef(slot_id=9, nbytes=1, capacity=1, fresh=False)},
    "no descriptor": {"slot": m.SlotRef(slot_id=9, nbytes=1, capacity=1, fresh=True)},
    "retired slot that was never sent": {"slot": m.SlotRef(slot_id=9, nbytes=1, capacity=1, fresh=False, retired=(4,))},
}


@pytest.mark.parametrize("fields", REFUSED)
@pytest.mark.usefixtures("fake")
def test_output_without_valid_memory_is_a_protocol_error(handle: WorkerHandle, fields: str) -> None:
    with pytest.raises(ProtocolError, match="batch-1/a"):
        map_output(handle, output_ready(**REFUSED[fields]), [])


@pytest.mark.usefixtures("fake")
def test_slot_larger_than_its_memory_is_refused_and_its_descriptor_closed(handle: WorkerHandle) -> None:
    reference = m.SlotRef(slot_id=1, nbytes=1, capacity=1 << 20, fresh=True)
    with pytest.raises(ProtocolError, match="batch-1/a"):
        map_output(handle, output_ready(slot=reference), [anonymous_memory(10)])


@pytest.mark.usefixtures("fake")
def test_output_has_the_forward_as_timed_by_the_device_if_there_is_one(handle: WorkerHandle) -> None:
    entry = RequestEntry(Handle(planned_call("a")[0], "batch-1/a"), 0.5, attempts=2, forward=FORWARD)
    for message, forward in (
        (output_ready(inline=PIXELS), FORWARD),
        (output_ready(inline=PIXELS, forward=Interval(4, 5)), Interval(4, 5)),
    ):
        output = to_output(handle, entry, message, *map_output(handle, message, []))
        assert (output.worker, output.attempts, output.forward) == (3, 2, forward)
        assert output.queued == Interval(0.5, forward.start)
