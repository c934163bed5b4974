"""The inbox sorts what arrives: work in order, slots and cancels at once, and an end that nobody sleeps through."""

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


class Post:
    """An inbox and the parent's end of its channel."""

    def __init__(self) -> None:
        self.parent, theirs = Channel.pair()
        self.worker = Channel(theirs)
        self.pool = SlotPool(4096)
        self.ends: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self.inbox = Inbox(self.worker, self.pool, lambda: self.ends.put(None), self.ends.put)

    def send(self, *messages: m.ToWorker) -> None:
        for message in messages:
            self.parent.send(m.encode(message))


@pytest.fixture
def post() -> Iterator[Post]:
    post = Post()
    yield post
    post.parent.close()
    for thread in threading.enumerate():
        if thread.name == "inbox":
            thread.join(PATIENCE_S)
    post.worker.close()
    post.pool.close()


def call(rpc_id: int) -> m.ExecuteModel:
    return m.ExecuteModel(rpc_id=rpc_id, batch_id="b", requests=())


RPC = m.Rpc(rpc_id=99, method="health")


def test_work_comes_in_order_up_to_the_shutdown(post: Post) -> None:
    post.send(call(1), RPC, call(2), m.Shutdown(), call(3))
    assert list(post.inbox) == [call(1), RPC, call(2)]


def test_a_released_slot_is_free_at_once_while_the_main_thread_is_busy(post: Post) -> None:
    slot = post.pool.acquire(4096)
    post.send(call(1), m.ReleaseSlot(slot_id=slot.id))
    assert post.pool.acquire(4096).id == slot.id


def test_a_cancel_reaches_a_call_in_the_inbox_and_one_that_runs(post: Post) -> None:
    post.send(call(1), call(2), m.Cancel(rpc_id=2), RPC)
    work = iter(post.inbox)
    assert [next(work) for _ in range(3)] == [call(1), call(2), RPC]
    assert not post.inbox.is_cancelled(1)
    assert post.inbox.is_cancelled(2)
    post.send(m.Cancel(rpc_id=1), RPC)
    next(work)
    assert post.inbox.is_cancelled(1)


def test_a_cancel_that_comes_too_late_or_too_early_is_not_remembered(post: Post) -> None:
    post.send(m.Cancel(rpc_id=1), call(1), RPC)
    work = iter(post.inbox)
    assert [next(work) for _ in range(2)] == [call(1), RPC]
    assert not post.inbox.is_cancelled(1)
    post.inbox.forget(1)
    post.send(m.Cancel(rpc_id=1), RPC)
    next(work)
    assert post.inbox._wanted == set()


def test_the_end_of_the_channel_is_told_while_the_main_thread_is_busy(post: Post) -> None:
    post.send(call(1))
    post.parent.close()
    assert post.ends.get(timeout=PATIENCE_S) is None


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"\xc1", ProtocolError),
        (m.encode(m.Hello(pid=1)), ProtocolError),
        (m.encode(m.ReleaseSlot(slot_id=5)), KeyError),
    ],
)
def test_what_cannot_be_dealt_with_is_told_and_not_slept_on(post: Post, payload: bytes, error: type[Exception]) -> None:
    post.parent.send(payload)
    assert isinstance(post.ends.get(timeout=PATIENCE_S), error)
