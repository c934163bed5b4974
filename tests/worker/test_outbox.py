"""Outputs leave one after the other, whole or as an error, and never pile up."""

import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from omni_cli.config import INLINE_BYTES, VideoOutputTransport
from omni_cli.media import NORMALIZED, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.platforms.base import Platform
from omni_cli.platforms.cpu import CpuPlatform
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel
from omni_cli.transport.ring import SlotPool, SlotViews
from omni_cli.worker.outbox import Outbox, Sketch
from omni_cli.worker.packing import Packer
from omni_cli.worker.parcels import Output

PATIENCE_S = 30.0
SIDE = 700
NBYTES = SIDE * SIDE * 3
SLOT = -(-NBYTES // mmap.PAGESIZE) * mmap.PAGESIZE
assert NBYTES > INLINE_BYTES


def output(id_: str, level: float = 1.0, side: int = SIDE) -> Output:
    """A picture of one level: -1 is 0, 1 is 255, NaN is an error."""
    data = torch.full((1, 3, side, side), level)
    return Output(id_, Media(MediaSpec(Kind.IMAGE, Layout.BCHW, Encoding.FLOAT, NORMALIZED), data), None, None)


class Post:
    """An outbox and the parent's end of its channel."""

    def __init__(self, ring: int = 4 * SLOT, limit: int = 1 << 30, platform: Platform | None = None) -> None:
        self.parent, theirs = Channel.pair()
        self.worker = Channel(theirs)
        self.pool = SlotPool(ring)
        self.views = SlotViews()
        packer = Packer(CpuPlatform(), VideoOutputTransport())
        self.outbox = Outbox(self.worker, self.pool, packer, platform or CpuPlatform(), limit)

    def next(self) -> m.FromWorker:
        """The next message, whatever it is."""
        received = self.parent.receive()
        assert received is not None
        return m.decode_from_worker(received[0])

    def receive(self) -> tuple[m.OutputReady, set[int]]:
        """The next message and the levels of its pixels."""
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
def post() -> Iterator[Post]:
    post = Post()
    yield post
    post.close()


def test_small_outputs_travel_in_the_message_and_large_ones_in_a_slot_whose_descriptor_travels_once(post: Post) -> None:
    post.outbox.start("cpu")
    post.outbox.put([output("b/small", -1.0, side=4), output("b/large"), output("b/again", -1.0)])
    small, levels = post.receive()
    assert (small.async_output_id, small.slot, levels) == ("b/small", None, {0})
    assert small.header is not None
    assert small.header.shape == (1, 1, 4, 4, 3)
    large, levels = post.receive()
    assert large.slot is not None
    assert (large.slot.fresh, large.slot.nbytes, large.inline, levels) == (True, NBYTES, None, {255})
    assert large.d2h.end >= large.d2h.start
    again, levels = post.receive()
    assert again.slot is not None
    assert (again.slot.fresh, levels) == (True, {0})
    post.pool.release(large.slot.slot_id)
    post.outbox.put([output("b/reused", -1.0)])
    reused, levels = post.receive()
    assert reused.slot is not None
    assert (reused.slot.slot_id, reused.slot.fresh, levels) == (large.slot.slot_id, False, {0})
    assert post.outbox.drain(PATIENCE_S)
    assert post.outbox.in_flight == 0


@pytest.mark.parametrize("threaded", [True, False])
def test_an_output_that_cannot_be_packed_is_an_error_of_its_own_and_its_slot_is_free(
    post: Post, threaded: bool
) -> None:
    outputs = [output("b/1"), output("b/2", float("nan")), output("b/3", -1.0)]
    if threaded:
        post.outbox.start("cpu")
        post.outbox.put(outputs)
    else:
        post.outbox.deliver(outputs)
    first, levels = post.receive()
    assert (first.error, levels) == (None, {255})
    second, levels = post.receive()
    assert second.error is not None
    assert "NaN" in second.error.message
    assert (second.slot, second.inline, second.header, levels) == (None, None, None, set())
    third, levels = post.receive()
    assert third.slot is not None
    assert (third.slot.slot_id, third.slot.fresh, levels) == (2, True, {0}), "the slot of the one that failed"
    assert post.pool.usage()[0] == 2


@pytest.mark.parametrize("what", ["second frame", "message"])
def test_a_fault_after_the_slot_was_written_leaves_nothing_half_sent_and_the_slot_free(post: Post, what: str) -> None:
    bad = output("b/1")
    if what == "second frame":
        frames = torch.zeros(1, 3, 2, SIDE, SIDE)
        frames[:, :, 1, -1, -1] = float("nan")
        bad.media = Media(MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, NORMALIZED), frames)
    else:
        bad.media = replace(bad.media, notes=("\ud800 which no message can hold",))
    post.outbox.start("cpu")
    post.outbox.put([bad, output("b/2", -1.0)])
    failed, levels = post.receive()
    assert failed.error is not None
    assert (failed.async_output_id, failed.slot, failed.inline, failed.header, levels) == (
        "b/1",
        None,
        None,
        None,
        set(),
    )
    good, levels = post.receive()
    assert (good.async_output_id, levels) == ("b/2", {0})
    assert post.outbox.drain(PATIENCE_S)
    assert post.pool.usage()[0] == 1, "one slot was enough for both, or was given up for one that fits"


def test_an_output_without_a_slot_holds_up_the_next_ones_and_in_the_end_the_forward() -> None:
    post = Post(ring=SLOT, limit=output("").nbytes)
    post.outbox.start("cpu")
    forward = threading.Thread(target=post.outbox.put, args=([output(f"b/{n}") for n in range(3)],))
    forward.start()
    first, _ = post.receive()
    forward.join(0.2)
    assert forward.is_alive(), "the second waits for the slot, the third for the second"
    assert post.outbox.in_flight == 1
    assert not post.outbox.drain(0.01)
    for _ in range(2):
        assert first.slot is not None
        post.pool.release(first.slot.slot_id)
        first, _ = post.receive()
    forward.join(PATIENCE_S)
    assert not forward.is_alive()
    assert post.outbox.drain(PATIENCE_S)
    post.close()


def test_an_output_larger_than_all_that_may_wait_goes_alone() -> None:
    post = Post(ring=100, limit=100)
    post.outbox.start("cpu")
    post.outbox.put([output("b/1")])
    assert post.receive()[1] == {255}
    post.close()


def test_without_the_thread_a_batch_larger_than_the_ring_goes_through_slot_by_slot() -> None:
    post = Post(ring=SLOT)
    worker = threading.Thread(target=post.outbox.deliver, args=([output(f"b/{n}") for n in range(3)],))
    worker.start()
    for n in range(3):
        message, _ = post.receive()
        assert message.slot is not None
        assert message.async_output_id == f"b/{n}"
        post.pool.release(message.slot.slot_id)
    worker.join(PATIENCE_S)
    assert not worker.is_alive()
    post.close()


def test_a_parent_that_is_gone_stops_nobody(post: Post) -> None:
    post.parent.close()
    post.outbox.start("cpu")
    post.outbox.put([output("b/1", side=4), output("b/2")])
    assert post.outbox.drain(PATIENCE_S)


def test_closing_sends_what_is_left_and_ends_the_thread() -> None:
    post = Post()
    post.outbox.start("cpu")
    post.outbox.put([output(f"b/{n}", side=4) for n in range(5)])
    post.outbox.close(PATIENCE_S)
    assert [post.receive()[0].async_output_id for _ in range(5)] == [f"b/{n}" for n in range(5)]
    assert all(thread.name != "output" for thread in threading.enumerate())
    post.close()


class Slow(CpuPlatform):
    """A device whose copies wait for a word."""

    def __init__(self) -> None:
        self.entered, self.go = threading.Event(), threading.Event()

    @contextmanager
    def side_stream(self, after: Any | None) -> Iterator[None]:
        self.entered.set()
        assert self.go.wait(PATIENCE_S)
        yield


def sketch(id_: str, step: int, *shape: int) -> Sketch:
    message = m.Preview(rpc_id=1, request_id=id_, step=step, total=9)
    return Sketch(message, torch.full(shape or (1, 2, 3), step, dtype=torch.uint8), None)


def test_of_previews_that_wait_only_the_latest_of_each_request_is_sent_and_before_any_output() -> None:
    platform = Slow()
    post = Post(platform=platform)
    post.outbox.start("cpu")
    post.outbox.show(sketch("a", 1))
    assert platform.entered.wait(PATIENCE_S)
    post.outbox.put([output("b/out", side=4)])
    for step in (2, 3):
        post.outbox.show(sketch("a", step))
        post.outbox.show(sketch("b", step))
    assert post.outbox.in_flight == 4
    platform.go.set()
    told = [post.next() for _ in range(4)]
    shown = [(t.request_id, t.step, t.width, t.height, t.pixels) for t in told if isinstance(t, m.Preview)]
    assert shown == [("a", 1, 2, 1, b"\1" * 6), ("a", 3, 2, 1, b"\3" * 6), ("b", 3, 2, 1, b"\3" * 6)]
    assert isinstance(told[-1], m.OutputReady)
    assert post.outbox.drain(PATIENCE_S)
    assert post.outbox.in_flight == 0
    post.close()


def test_without_an_output_thread_a_preview_is_sent_at_once(post: Post) -> None:
    post.outbox.show(sketch("a", 7))
    assert isinstance(post.next(), m.Preview)


def test_a_preview_that_cannot_be_copied_says_so_and_the_output_thread_goes_on(post: Post) -> None:
    post.outbox.start("cpu")
    post.outbox.show(sketch("a", 1, 3))
    told = post.next()
    assert isinstance(told, m.Preview)
    assert told.fault is not None
    assert told.fault.startswith("ValueError")
    post.outbox.put([output("b/out", side=4)])
    assert isinstance(post.next(), m.OutputReady)
