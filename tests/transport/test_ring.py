"""Slots are mapped once on each side, reused, bounded in bytes, and leave nothing behind."""

import gc
import mmap
import os
import threading
from pathlib import Path

import pytest

from omni_cli.errors import EngineError
from omni_cli.transport.ring import SlotPool, SlotViews, anonymous_memory

PAGE = mmap.PAGESIZE
PATIENCE_S = 30.0


def open_fds() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_the_parent_sees_what_the_worker_writes_without_a_copy() -> None:
    pool, views = SlotPool(10 * PAGE), SlotViews()
    slot = pool.acquire(5000)
    ref = slot.ref(5000, pool.take_retired())
    view = views.view(ref, [os.dup(slot.fd)])
    pool.mark_shared(slot)
    slot.memory[:3] = b"abc"
    assert bytes(view[:3]) == b"abc"
    assert len(view) == 5000
    assert view.readonly
    slot.memory[:3] = b"xyz"
    assert bytes(view[:3]) == b"xyz"
    del view
    views.close()
    pool.close()


def test_a_released_slot_is_reused_and_its_descriptor_is_sent_once() -> None:
    pool = SlotPool(100 * PAGE)
    first = pool.acquire(PAGE)
    assert first.ref(PAGE, ()).fresh
    pool.mark_shared(first)
    pool.release(first.id)
    again = pool.acquire(PAGE - 7)
    assert again is first
    assert not again.ref(PAGE - 7, ()).fresh
    assert pool.usage() == (1, PAGE)
    pool.close()


def test_acquire_returns_the_smallest_slot_that_fits() -> None:
    pool = SlotPool(100 * PAGE)
    large, small = pool.acquire(9 * PAGE), pool.acquire(2 * PAGE)
    pool.release(large.id)
    pool.release(small.id)
    assert pool.acquire(PAGE) is small
    assert pool.acquire(3 * PAGE) is large
    pool.close()


def test_acquire_waits_for_a_release_when_the_budget_is_used() -> None:
    pool = SlotPool(2 * PAGE)
    busy = pool.acquire(2 * PAGE)
    acquired: list[int] = []
    started = threading.Event()

    def acquire() -> None:
        started.set()
        acquired.append(pool.acquire(PAGE).id)

    thread = threading.Thread(target=acquire)
    thread.start()
    assert started.wait(PATIENCE_S)
    pool.release(busy.id)
    thread.join(PATIENCE_S)
    assert acquired == [busy.id], "a second slot would exceed the budget"
    assert pool.usage() == (1, 2 * PAGE)
    pool.close()


def test_free_slots_are_retired_to_make_room_and_the_parent_unmaps_them() -> None:
    mapped: list[mmap.mmap] = []
    unmapped: list[mmap.mmap] = []
    pool, views = SlotPool(4 * PAGE, lambda memory: not mapped.append(memory), unmapped.append), SlotViews()
    small = pool.acquire(PAGE)
    views.view(small.ref(PAGE, pool.take_retired()), [os.dup(small.fd)])
    pool.mark_shared(small)
    pool.release(small.id)
    large = pool.acquire(4 * PAGE)
    ref = large.ref(4 * PAGE, pool.take_retired())
    assert ref.retired == (small.id,)
    assert unmapped == mapped[:1]
    assert pool.usage() == (1, 4 * PAGE)
    views.view(ref, [os.dup(large.fd)])
    assert pool.take_retired() == ()
    views.close()
    pool.close()


def test_a_payload_larger_than_the_budget_gets_a_slot_once_no_other_is_busy() -> None:
    pool = SlotPool(PAGE)
    busy = pool.acquire(PAGE)
    usage: list[tuple[int, int]] = []

    started = threading.Event()

    def acquire() -> None:
        started.set()
        pool.acquire(7 * PAGE)
        usage.append(pool.usage())

    thread = threading.Thread(target=acquire)
    thread.start()
    assert started.wait(PATIENCE_S)
    pool.release(busy.id)
    thread.join(PATIENCE_S)
    assert usage == [(1, 7 * PAGE)], "the other slot was retired first"
    pool.close()


def test_closing_wakes_a_waiter_with_an_error() -> None:
    pool = SlotPool(PAGE)
    pool.acquire(PAGE)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            pool.acquire(PAGE)
        except EngineError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    pool.close()
    thread.join(PATIENCE_S)
    assert len(errors) == 1


def test_releasing_a_slot_twice_raises() -> None:
    pool = SlotPool(PAGE)
    slot = pool.acquire(PAGE)
    pool.release(slot.id)
    with pytest.raises(KeyError):
        pool.release(slot.id)
    pool.close()


def test_a_view_outlives_the_slots_retirement() -> None:
    pool, views = SlotPool(PAGE), SlotViews()
    slot = pool.acquire(PAGE)
    view = views.view(slot.ref(PAGE, ()), [os.dup(slot.fd)])
    slot.memory[:4] = b"keep"
    views.close()
    pool.close()
    assert bytes(view[:4]) == b"keep"


@pytest.mark.parametrize("memfd", [True, False])
def test_a_slot_has_no_name_that_another_user_could_open(memfd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not memfd:
        monkeypatch.delattr(os, "memfd_create")
    fd = anonymous_memory(4096)
    facts, link = os.fstat(fd), str(Path(f"/proc/self/fd/{fd}").readlink())
    assert (facts.st_nlink, facts.st_uid) == (0, os.geteuid())
    assert link.endswith(" (deleted)")
    assert not Path(link.removesuffix(" (deleted)")).exists()
    if not memfd:
        assert facts.st_mode & 0o077 == 0
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_closing_leaves_no_descriptor_open() -> None:
    gc.collect()
    before = open_fds()
    pool, views = SlotPool(100 * PAGE), SlotViews()
    for size in (1, PAGE, 3 * PAGE):
        slot = pool.acquire(size)
        views.view(slot.ref(size, ()), [os.dup(slot.fd)])
        pool.mark_shared(slot)
    pool.acquire(PAGE)  # never sent
    views.close()
    pool.close()
    gc.collect()
    assert open_fds() == before


def test_after_a_refusal_no_memory_is_registered_and_none_is_unregistered() -> None:
    refused, unpinned = list[mmap.mmap](), list[mmap.mmap]()
    pool = SlotPool(4 * PAGE, lambda memory: bool(refused.append(memory)), unpinned.append)
    slots = [pool.acquire(PAGE) for _ in range(3)]
    assert (len(refused), [slot.pinned for slot in slots]) == (1, [False] * 3)
    for slot in slots:
        pool.release(slot.id)
    pool.acquire(4 * PAGE)
    pool.close()
    assert unpinned == []


def test_slots_are_released_while_new_memory_is_registered() -> None:
    began, released = threading.Event(), threading.Event()

    def pin(memory: mmap.mmap) -> bool:
        if len(memory) > PAGE:
            began.set()
            assert released.wait(30)
        return True

    pool = SlotPool(8 * PAGE, pin)
    slot = pool.acquire(PAGE)
    thread = threading.Thread(target=pool.acquire, args=(2 * PAGE,))
    thread.start()
    assert began.wait(30)
    pool.release(slot.id)
    released.set()
    thread.join()
    assert pool.usage() == (2, 3 * PAGE)


def test_room_that_is_being_made_counts_as_used() -> None:
    began, go_on = threading.Event(), threading.Event()

    def pin(memory: mmap.mmap) -> bool:
        began.set()
        return go_on.wait(30)

    pool = SlotPool(2 * PAGE, pin)
    threads = [threading.Thread(target=pool.acquire, args=(2 * PAGE,)) for _ in range(2)]
    threads[0].start()
    assert began.wait(30)
    threads[1].start()
    go_on.set()
    threads[0].join()
    threads[1].join(0.1)
    assert threads[1].is_alive()
    assert pool.usage() == (1, 2 * PAGE)
    pool.release(1)
    threads[1].join()
