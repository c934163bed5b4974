"""The inbox queues work in order, handles slots and cancellations at once, and reports the end of the channel."""

import queue
import threading
from collections.abc import Iterator

import pytest

from omni_cli.errors import ProtocolError
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel
from omni_cli.transport.ring import SlotPool
from omni_cli.worker.inbox import Inbox

PATIENCE_S = 30.0


class InboxHarness:
    """An inbox with the parent's end of its channel."""

    def __init__(self) -> None:
        self.parent, worker_end = Channel.pair()
        self.worker = Channel(worker_end)
        self.pool = SlotPool(4096)
        self.ends: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self.inbox = Inbox(self.worker, self.pool, lambda: self.ends.put(None), self.ends.put)

    def send(self, *messages: m.ToWorker) -> None:
        for message in messages:
            self.parent.send(m.encode(message))


@pytest.fixture
def harness() -> Iterator[InboxHarness]:
    harness = InboxHarness()
    yield harness
    harness.parent.close()
    for thread in threading.enumerate():
        if thread.name == "inbox":
            thread.join(PATIENCE_S)
    harness.worker.close()
    harness.pool.close()


def call(rpc_id: int) -> m.ExecuteModel:
    return m.ExecuteModel(rpc_id=rpc_id, batch_id="b", requests=())


RPC = m.Rpc(rpc_id=99, method="health")


def test_work_is_delivered_in_order_up_to_shutdown(harness: InboxHarness) -> None:
    harness.send(call(1), RPC, call(2), m.Shutdown(), call(3))
    assert list(harness.inbox) == [call(1), RPC, call(2)]


def test_a_released_slot_is_free_while_the_main_thread_is_busy(harness: InboxHarness) -> None:
    slot = harness.pool.acquire(4096)
    harness.send(call(1), m.ReleaseSlot(slot_id=slot.id))
    assert harness.pool.acquire(4096).id == slot.id


def test_a_cancel_reaches_queued_and_running_calls(harness: InboxHarness) -> None:
    harness.send(call(1), call(2), m.Cancel(rpc_id=2), RPC)
    work = iter(harness.inbox)
    assert [next(work) for _ in range(3)] == [call(1), call(2), RPC]
    assert not harness.inbox.is_cancelled(1)
    assert harness.inbox.is_cancelled(2)
    harness.send(m.Cancel(rpc_id=1), RPC)
    next(work)
    assert harness.inbox.is_cancelled(1)


def test_a_cancel_before_or_after_its_call_has_no_effect(harness: InboxHarness) -> None:
    harness.send(m.Cancel(rpc_id=1), call(1), RPC)
    work = iter(harness.inbox)
    assert [next(work) for _ in range(2)] == [call(1), RPC]
    assert not harness.inbox.is_cancelled(1)
    harness.inbox.finish(1)
    harness.send(m.Cancel(rpc_id=1), RPC)
    next(work)
    assert harness.inbox._active == set()


def test_the_end_of_the_channel_is_reported_while_the_main_thread_is_busy(harness: InboxHarness) -> None:
    harness.send(call(1))
    harness.parent.close()
    assert harness.ends.get(timeout=PATIENCE_S) is None


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"\xc1", ProtocolError),
        (m.encode(m.Hello(pid=1)), ProtocolError),
        (m.encode(m.ReleaseSlot(slot_id=5)), KeyError),
    ],
)
def test_a_message_that_cannot_be_handled_is_reported(
    harness: InboxHarness, payload: bytes, error: type[Exception]
) -> None:
    harness.parent.send(payload)
    assert isinstance(harness.ends.get(timeout=PATIENCE_S), error)
