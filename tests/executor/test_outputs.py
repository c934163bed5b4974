"""An output is a view over its slot, given back to the worker that owns it; one that cannot be is refused."""

import os
from collections.abc import Iterator

import pytest

from omni_cli.errors import ProtocolError
from omni_cli.executor.call import Entry
from omni_cli.executor.launch import start_worker
from omni_cli.executor.link import Link
from omni_cli.executor.outputs import make_output, payload
from omni_cli.executor.protocol import Handle
from omni_cli.request import Interval
from omni_cli.transport import messages as m
from omni_cli.transport.ring import anonymous_memory
from tests.executor.puppet import D2H, FORWARD, HEADER, PIXELS, Puppet, Stage, error, planned


@pytest.fixture
def link(stage: Stage) -> Iterator[tuple[Link, Puppet]]:
    link = Link(3, start_worker(stage.command), 0.0)
    yield link, stage.next()
    link.views.close()
    link.process.end(0)
    link.process.dispose()


def ready(**fields: object) -> m.OutputReady:
    return m.OutputReady(**{"async_output_id": "batch-1/a", "header": HEADER, "d2h": D2H, **fields})  # type: ignore[arg-type]


def test_a_slot_is_read_in_place_and_given_back_to_its_owner(link: tuple[Link, Puppet]) -> None:
    parent, worker = link
    slot = worker.pool.acquire(len(PIXELS))
    slot.memory[: len(PIXELS)] = PIXELS
    buffer, release = payload(parent, ready(slot=slot.ref(len(PIXELS), ())), [os.dup(slot.fd)])
    assert (bytes(buffer), buffer.readonly) == (PIXELS, True)
    slot.memory[0] = 200
    assert buffer[0] == 200
    release()
    assert worker.expect(m.ReleaseSlot).slot_id == slot.id
    del buffer


def test_small_ones_and_errors_need_no_giving_back(link: tuple[Link, Puppet]) -> None:
    parent, worker = link
    for message, expected in ((ready(inline=PIXELS), PIXELS), (ready(header=None, error=error()), b"")):
        buffer, release = payload(parent, message, [])
        release()
        assert bytes(buffer) == expected
    assert worker.hears_nothing()


def test_giving_back_to_a_worker_that_is_gone_is_no_error(link: tuple[Link, Puppet]) -> None:
    parent, worker = link
    slot = worker.pool.acquire(1)
    _, release = payload(parent, ready(slot=slot.ref(1, ())), [os.dup(slot.fd)])
    worker.channel.close()
    release()
    parent.process.channel.close()
    release()


REFUSED = {
    "neither output nor error": {},
    "no header": {"header": None, "inline": PIXELS},
    "a slot that was never sent": {"slot": m.SlotRef(slot_id=9, nbytes=1, capacity=1, fresh=False)},
    "no descriptor": {"slot": m.SlotRef(slot_id=9, nbytes=1, capacity=1, fresh=True)},
    "retired and never sent": {"slot": m.SlotRef(slot_id=9, nbytes=1, capacity=1, fresh=False, retired=(4,))},
}


@pytest.mark.parametrize("fields", REFUSED)
def test_an_output_that_cannot_be_is_the_workers_fault(link: tuple[Link, Puppet], fields: str) -> None:
    with pytest.raises(ProtocolError, match="batch-1/a"):
        payload(link[0], ready(**REFUSED[fields]), [])


def test_a_slot_larger_than_its_memory_is_refused_and_its_descriptor_closed(link: tuple[Link, Puppet]) -> None:
    reference = m.SlotRef(slot_id=1, nbytes=1, capacity=1 << 20, fresh=True)
    with pytest.raises(ProtocolError, match="batch-1/a"):
        payload(link[0], ready(slot=reference), [anonymous_memory(10)])


def test_an_output_carries_the_forward_by_the_devices_clock_where_it_has_one(link: tuple[Link, Puppet]) -> None:
    entry = Entry(Handle(planned("a")[0], "batch-1/a"), 0.5, attempts=2, forward=FORWARD)
    for message, forward in (
        (ready(inline=PIXELS), FORWARD),
        (ready(inline=PIXELS, forward=Interval(4, 5)), Interval(4, 5)),
    ):
        output = make_output(link[0], entry, message, *payload(link[0], message, []))
        assert (output.worker, output.attempts, output.forward) == (3, 2, forward)
        assert output.queued == Interval(0.5, forward.start)
