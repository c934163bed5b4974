"""Slots are registered with the driver while they are mapped, and a payload buffer frees its slot after an error."""

import mmap
import threading

import pytest

from omni_cli.config import INLINE_BYTES
from omni_cli.platforms.base import Platform
from omni_cli.request import Interval
from omni_cli.worker.output.outgoing import PayloadBuffer, output_interval, pinned_slot_pool


class RecordingPlatform(Platform):
    """Records which host memory is registered."""

    def __init__(self) -> None:
        self.registered: dict[int, int] = {}
        self.calls = 0

    def register_host(self, address: int, nbytes: int) -> bool:
        self.registered[address] = nbytes
        self.calls += 1
        return True

    def unregister_host(self, address: int) -> None:
        del self.registered[address]


def test_each_slot_is_registered_once_while_it_is_mapped() -> None:
    platform = RecordingPlatform()
    pool = pinned_slot_pool(platform, 4 * mmap.PAGESIZE)
    for _ in range(2):
        pool.release(pool.acquire(mmap.PAGESIZE).id)
    assert (list(platform.registered.values()), platform.calls) == ([mmap.PAGESIZE], 1)
    pool.acquire(4 * mmap.PAGESIZE)
    assert list(platform.registered.values()) == [4 * mmap.PAGESIZE], "the small slot was retired"
    pool.close()
    assert platform.registered == {}


def test_a_payload_buffer_frees_its_slot_if_the_block_raises() -> None:
    pool = pinned_slot_pool(Platform(), INLINE_BYTES * 2)
    with pytest.raises(IndexError), PayloadBuffer(pool) as buffer:
        buffer.allocate(INLINE_BYTES + 1)[1 << 40] = 0
    with PayloadBuffer(pool) as buffer:
        buffer.allocate(INLINE_BYTES + 1)
        first = buffer.slot
        buffer.allocate(INLINE_BYTES + 1)
    assert first is not None
    assert buffer.slot is first, "a second allocation frees the first"
    assert pool.usage()[0] == 1
    pool.close()


@pytest.mark.parametrize(
    ("ready", "start", "end", "waited", "interval"),
    [
        (1.0, 2.0, 5.0, 0.0, (2.0, 5.0)),
        (3.0, 2.0, 5.0, 0.0, (3.0, 5.0)),
        (3.0, 2.0, 5.0, 1.5, (4.5, 5.0)),
        (3.0, 2.0, 5.0, 9.0, (5.0, 5.0)),
        (6.0, 2.0, 5.0, 0.0, (5.0, 5.0)),
    ],
)
def test_output_time_leaves_out_the_forward_and_the_wait_for_a_slot(
    ready: float, start: float, end: float, waited: float, interval: tuple[float, float]
) -> None:
    assert output_interval(ready, start, end, waited) == Interval(*interval)


def test_time_without_a_free_slot_is_measured() -> None:
    pool = pinned_slot_pool(Platform(), 0)
    slot = pool.acquire(INLINE_BYTES + 1)
    timer = threading.Timer(0.2, pool.release, (slot.id,))
    with PayloadBuffer(pool) as buffer:
        timer.start()
        buffer.allocate(INLINE_BYTES + 1)
        assert buffer.waited >= 0.1
