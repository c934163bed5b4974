"""Outputs are sent one after the other, complete or as an error, and never pile up on the device."""

import mmap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from omni_cli.config import INLINE_BYTES, VideoOutputTransport
from omni_cli.errors import OutOfDeviceMemory
from omni_cli.media import NORMALIZED, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.platforms.base import Platform
from omni_cli.platforms.streamless import CpuPlatform
from omni_cli.request import Interval
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel
from omni_cli.transport.ring import SlotPool, SlotViews
from omni_cli.worker.output.outbox import Outbox, OutgoingPreview
from omni_cli.worker.output.outgoing import EncodedMessage, OutgoingOutput, PackContext
from omni_cli.worker.output.packer import Packer

PATIENCE_S = 30.0
SIDE = 700
D2H = Interval(1.0, 2.0)
NBYTES = SIDE * SIDE * 3
SLOT = -(-NBYTES // mmap.PAGESIZE) * mmap.PAGESIZE
assert NBYTES > INLINE_BYTES


def output(id_: str, level: float = 1.0, side: int = SIDE) -> OutgoingOutput:
    """Return an image of one level: -1.0 becomes 0, 1.0 becomes 255, NaN fails."""
    data = torch.full((1, 3, side, side), level)
    return OutgoingOutput(id_, Media(MediaSpec(Kind.IMAGE, Layout.BCHW, Encoding.FLOAT, NORMALIZED), data), None, None)


class OutboxAndParent:
    """An outbox, and the parent's end of its channel."""

    def __init__(self, ring: int = 4 * SLOT, limit: int = 1 << 30, platform: Platform | None = None) -> None:
        self.parent, theirs = Channel.pair()
        self.worker = Channel(theirs)
        self.pool = SlotPool(ring)
        self.views = SlotViews()
        packer = Packer(CpuPlatform(), VideoOutputTransport())
        self.outbox = Outbox(self.worker, self.pool, packer, platform or CpuPlatform(), limit)

    def next(self) -> m.FromWorker:
        """Return the next message."""
        received = self.parent.receive()
        assert received is not None
        return m.decode_from_worker(received[0])

    def receive(self) -> tuple[m.OutputReady, set[int]]:
        """Return the next OutputReady and the set of its pixels' levels."""
        received = self.parent.receive()
        assert received is not None
        message = m.decode_from_worker(received[0])
        assert isinstance(message, m.OutputReady)
        if message.slot is not None:
            return message, set(bytes(self.views.view(message.slot, received[1])))
        return message, set(message.inline or b"")

    def close(self) -> None:
        self.outbox.close(PATIENCE_S)
        self.parent.close()
        self.worker.close()
        self.views.close()
        self.pool.close()


@pytest.fixture
def ends() -> Iterator[OutboxAndParent]:
    ends = OutboxAndParent()
    yield ends
    ends.close()


def test_small_outputs_are_sent_inline_and_large_ones_in_a_slot_whose_descriptor_is_sent_once(
    ends: OutboxAndParent,
) -> None:
    ends.outbox.start("cpu")
    ends.outbox.put([output("b/small", -1.0, side=4), output("b/large"), output("b/again", -1.0)])
    small, levels = ends.receive()
    assert (small.async_output_id, small.slot, levels) == ("b/small", None, {0})
    assert small.header is not None
    assert small.header.shape == (1, 1, 4, 4, 3)
    large, levels = ends.receive()
    assert large.slot is not None
    assert (large.slot.fresh, large.slot.nbytes, large.inline, levels) == (True, NBYTES, None, {255})
    assert large.d2h.end >= large.d2h.start
    again, levels = ends.receive()
    assert again.slot is not None
    assert (again.slot.fresh, levels) == (True, {0})
    ends.pool.release(large.slot.slot_id)
    ends.outbox.put([output("b/reused", -1.0)])
    reused, levels = ends.receive()
    assert reused.slot is not None
    assert (reused.slot.slot_id, reused.slot.fresh, levels) == (large.slot.slot_id, False, {0})
    assert ends.outbox.drain(PATIENCE_S)
    assert ends.outbox.in_flight == 0


@pytest.mark.parametrize("threaded", [True, False])
def test_an_output_that_cannot_be_packed_is_sent_as_an_error_and_its_slot_is_free(
    ends: OutboxAndParent, threaded: bool
) -> None:
    outputs = [output("b/1"), output("b/2", float("nan")), output("b/3", -1.0)]
    if threaded:
        ends.outbox.start("cpu")
        ends.outbox.put(outputs)
    else:
        ends.outbox.deliver(outputs)
    first, levels = ends.receive()
    assert (first.error, levels) == (None, {255})
    second, levels = ends.receive()
    assert second.error is not None
    assert "NaN" in second.error.message
    assert (second.slot, second.inline, second.header, levels) == (None, None, None, set())
    third, levels = ends.receive()
    assert third.slot is not None
    assert (third.slot.slot_id, third.slot.fresh, levels) == (2, True, {0}), "the slot of the one that failed"
    assert ends.pool.usage()[0] == 2


@pytest.mark.parametrize("what", ["second frame", "message"])
def test_a_failure_after_the_slot_was_written_frees_the_slot_and_sends_only_the_error(
    ends: OutboxAndParent, what: str
) -> None:
    if what == "second frame":
        frames = torch.zeros(1, 3, 2, SIDE, SIDE)
        frames[:, :, 1, -1, -1] = float("nan")
        media = Media(MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, NORMALIZED), frames)
    else:
        media = replace(output("b/1").media, notes=("\ud800 which no message can hold",))
    ends.outbox.start("cpu")
    ends.outbox.put([replace(output("b/1"), media=media), output("b/2", -1.0)])
    failed, levels = ends.receive()
    assert failed.error is not None
    assert (failed.async_output_id, failed.slot, failed.inline, failed.header, levels) == (
        "b/1",
        None,
        None,
        None,
        set(),
    )
    good, levels = ends.receive()
    assert (good.async_output_id, levels) == ("b/2", {0})
    assert ends.outbox.drain(PATIENCE_S)
    assert ends.pool.usage()[0] == 1, "one slot was enough for both, or was given up for one that fits"


def test_an_output_without_a_free_slot_blocks_the_queue_and_then_the_forward() -> None:
    ends = OutboxAndParent(ring=SLOT, limit=output("").nbytes)
    ends.outbox.start("cpu")
    third_is_due = threading.Event()

    def outputs() -> Iterator[OutgoingOutput]:
        for number in range(3):
            if number == 2:
                third_is_due.set()
            yield output(f"b/{number}")

    forward = threading.Thread(target=ends.outbox.put, args=(outputs(),))
    forward.start()
    message, _ = ends.receive()
    assert message.slot is not None
    slot_id = message.slot.slot_id
    assert third_is_due.wait(PATIENCE_S)
    assert forward.is_alive(), "the second output waits for the slot, the third for the second"
    assert ends.outbox.in_flight == 1
    assert not ends.outbox.drain(0)
    for _ in range(2):
        ends.pool.release(slot_id)
        message, _ = ends.receive()
        assert message.slot is not None
        assert message.slot.slot_id == slot_id, "no second slot was made"
    forward.join(PATIENCE_S)
    assert not forward.is_alive()
    assert ends.outbox.drain(PATIENCE_S)
    ends.close()


def test_an_output_larger_than_the_limit_is_sent_alone() -> None:
    ends = OutboxAndParent(ring=100, limit=100)
    ends.outbox.start("cpu")
    ends.outbox.put([output("b/1")])
    assert ends.receive()[1] == {255}
    ends.close()


def test_deliver_sends_a_batch_larger_than_the_ring_slot_by_slot() -> None:
    ends = OutboxAndParent(ring=SLOT)
    worker = threading.Thread(target=ends.outbox.deliver, args=([output(f"b/{n}") for n in range(3)],))
    worker.start()
    for n in range(3):
        message, _ = ends.receive()
        assert message.slot is not None
        assert message.async_output_id == f"b/{n}"
        ends.pool.release(message.slot.slot_id)
    worker.join(PATIENCE_S)
    assert not worker.is_alive()
    ends.close()


def test_the_outbox_drains_when_the_parent_is_gone(ends: OutboxAndParent) -> None:
    ends.parent.close()
    ends.outbox.start("cpu")
    ends.outbox.put([output("b/1", side=4), output("b/2")])
    assert ends.outbox.drain(PATIENCE_S)


def test_close_sends_queued_outputs_and_ends_the_thread() -> None:
    ends = OutboxAndParent()
    ends.outbox.start("cpu")
    ends.outbox.put([output(f"b/{n}", side=4) for n in range(5)])
    ends.outbox.close(PATIENCE_S)
    assert [ends.receive()[0].async_output_id for _ in range(5)] == [f"b/{n}" for n in range(5)]
    assert all(thread.name != "output" for thread in threading.enumerate())
    ends.close()


@dataclass(frozen=True)
class Scarce:
    """An output for whose copy there is no memory before `is_free()`."""

    is_free: Callable[[], bool]
    waits: bool = True
    notes: tuple[str, ...] = ()
    output_id: str = "b/scarce"
    nbytes: int = 8

    def encode(self, context: PackContext) -> EncodedMessage:
        if not self.is_free():
            raise OutOfDeviceMemory("full")
        return EncodedMessage(m.encode(m.OutputReady(async_output_id=self.output_id, d2h=D2H, notes=self.notes)))

    def forward(self, platform: Platform) -> None:
        return None

    def with_notes(self, *notes: str) -> "Scarce | None":
        return replace(self, notes=(*self.notes, *notes)) if self.waits else None


def test_an_output_without_memory_is_copied_after_the_forward_and_before_the_next(ends: OutboxAndParent) -> None:
    ends.outbox.start("cpu")
    tried, over = threading.Event(), threading.Event()

    def is_free() -> bool:
        tried.set()
        return over.is_set()

    with ends.outbox.forward():
        ends.outbox.put([Scarce(is_free)])
        assert tried.wait(PATIENCE_S)
        assert not ends.outbox.drain(0.01)
        over.set()
    with ends.outbox.forward():
        assert ends.outbox.drain(PATIENCE_S), "it did not wait for a second forward"
    assert ends.receive()[0].error is None


def test_an_output_without_memory_takes_the_measures_of_the_runner_before_it_fails(ends: OutboxAndParent) -> None:
    left = ["tiles", "weights moved away"]
    ends.outbox.free_memory_by(lambda: left.pop(0) if left else None)
    ends.outbox.deliver([Scarce(lambda: len(left) == 0), Scarce(lambda: False), output("b/next", side=4)])
    first, second, third = (ends.receive()[0] for _ in range(3))
    assert (first.error, first.notes) == (None, ("tiles", "weights moved away"))
    assert second.error is not None
    assert (second.error.kind, third.error) == ("out_of_memory", None)


def test_a_forward_that_failed_for_lack_of_memory_gives_way_to_an_output_that_waits(ends: OutboxAndParent) -> None:
    ends.outbox.start("cpu")
    with ends.outbox.forward():
        assert not ends.outbox.give_way(PATIENCE_S)
        tries: list[int] = []
        ends.outbox.put([Scarce(lambda: len(tries) == 1 or tries.append(1) is not None)])
        ends.outbox.put([Scarce(lambda: False, waits=False)])  # a piece that the forward waits for fails at once
        assert ends.outbox.give_way(PATIENCE_S)
        assert ends.outbox.in_flight == 0
        assert [ends.receive()[0].error is None for _ in range(2)] == [True, False]
        assert not ends.outbox._forward_lock.acquire(blocking=False), "the forward goes on"


class BlockedCopies(CpuPlatform):
    """A device whose copies wait for `go`."""

    def __init__(self) -> None:
        self.entered, self.go = threading.Event(), threading.Event()

    @contextmanager
    def side_stream(self, after: Any | None) -> Iterator[None]:
        self.entered.set()
        assert self.go.wait(PATIENCE_S)
        yield


def preview(id_: str, step: int, *shape: int) -> OutgoingPreview:
    message = m.Preview(rpc_id=1, request_id=id_, step=step, total=9)
    return OutgoingPreview(message, torch.full(shape or (1, 2, 3), step, dtype=torch.uint8), None)


def test_only_the_latest_waiting_preview_of_each_request_is_sent_and_before_any_output() -> None:
    platform = BlockedCopies()
    ends = OutboxAndParent(platform=platform)
    ends.outbox.start("cpu")
    ends.outbox.show(preview("a", 1))
    assert platform.entered.wait(PATIENCE_S)
    ends.outbox.put([output("b/out", side=4)])
    for step in (2, 3):
        ends.outbox.show(preview("a", step))
        ends.outbox.show(preview("b", step))
    assert ends.outbox.in_flight == 4
    platform.go.set()
    messages = [ends.next() for _ in range(4)]
    shown = [(p.request_id, p.step, p.width, p.height, p.pixels) for p in messages if isinstance(p, m.Preview)]
    assert shown == [("a", 1, 2, 1, b"\1" * 6), ("a", 3, 2, 1, b"\3" * 6), ("b", 3, 2, 1, b"\3" * 6)]
    assert isinstance(messages[-1], m.OutputReady)
    assert ends.outbox.drain(PATIENCE_S)
    assert ends.outbox.in_flight == 0
    ends.close()


def test_without_an_output_thread_a_preview_is_sent_at_once(ends: OutboxAndParent) -> None:
    ends.outbox.show(preview("a", 7))
    assert isinstance(ends.next(), m.Preview)


def test_a_preview_that_cannot_be_copied_is_sent_as_a_fault(ends: OutboxAndParent) -> None:
    ends.outbox.start("cpu")
    ends.outbox.show(preview("a", 1, 3))
    message = ends.next()
    assert isinstance(message, m.Preview)
    assert message.fault is not None
    assert message.fault.startswith("ValueError")
    ends.outbox.put([output("b/out", side=4)])
    assert isinstance(ends.next(), m.OutputReady)
