"""Slots: one mapping on each side, reused, bounded in bytes, nothing left behind."""

import gc
import mmap
import os
import threading
from pathlib import Path

import pytest

from omni_cli.errors import EngineError
from omni_cli.transport.ring import SlotPool, SlotViews, anonymous_memory

PAGE = mmap.PAGESIZE


def open_fds() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_the_parent_sees_what_the_worker_writes_without_a_copy() -> None:
    pool, views = SlotPool(10 * PAGE), SlotViews()
    slot = pool.acquire(5000)
    ref = slot.ref(5000, pool.take_retired())
    view = views.view(ref, [os.dup(slot.fd)])
    pool.shared(slot)
    slot.memory[:3] = b"abc"
    assert bytes(view[:3]) == b"abc"
    assert len(view) == 5000
    assert view.readonly
    slot.memory[:3] = b"xyz"
    assert bytes(view[:3]) == b"xyz"
    del view
    views.close()
    pool.close()


def test_a_released_slot_is_used_again_and_its_descriptor_travels_once() -> None:
    pool = SlotPool(100 * PAGE)
    first = pool.acquire(PAGE)
    assert first.ref(PAGE, ()).fresh
    pool.shared(first)
    pool.release(first.id)
    again = pool.acquire(PAGE - 7)
    assert again is first
    assert not again.ref(PAGE - 7, ()).fresh
    assert pool.usage() == (1, PAGE)
    pool.close()


def test_the_smallest_fitting_slot_is_taken() -> None:
    pool = SlotPool(100 * PAGE)
    large, small = pool.acquire(9 * PAGE), pool.acquire(2 * PAGE)
    pool.release(large.id)
    pool.release(small.id)
    assert pool.acquire(PAGE) is small
    assert pool.acquire(3 * PAGE) is large
    pool.close()


def test_acquire_waits_for_a_release_when_the_budget_is_used() -> None:
    pool = SlotPool(2 * PAGE)
    held = pool.acquire(2 * PAGE)
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.append(pool.acquire(PAGE).id))
    thread.start()
    thread.join(0.05)
    assert got == []
    pool.release(held.id)
    thread.join(10)
    assert got == [held.id]
    pool.close()


def test_free_slots_are_retired_to_make_room_and_the_parent_unmaps_them() -> None:
    mapped: list[mmap.mmap] = []
    unmapped: list[mmap.mmap] = []
    pool, views = SlotPool(4 * PAGE, mapped.append, unmapped.append), SlotViews()
    small = pool.acquire(PAGE)
    views.view(small.ref(PAGE, pool.take_retired()), [os.dup(small.fd)])
    pool.shared(small)
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


def test_a_payload_larger_than_the_budget_gets_its_own_slot_once_nothing_is_in_flight() -> None:
    pool = SlotPool(PAGE)
    held = pool.acquire(PAGE)
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.append(pool.acquire(7 * PAGE).capacity))
    thread.start()
    thread.join(0.05)
    assert got == []
    pool.release(held.id)
    thread.join(10)
    assert got == [7 * PAGE]
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
    thread.join(10)
    assert len(errors) == 1


def test_releasing_twice_is_a_bug_that_shows() -> None:
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


def test_nothing_is_left_open() -> None:
    gc.collect()
    before = open_fds()
    pool, views = SlotPool(100 * PAGE), SlotViews()
    for size in (1, PAGE, 3 * PAGE):
        slot = pool.acquire(size)
        views.view(slot.ref(size, ()), [os.dup(slot.fd)])
        pool.shared(slot)
    pool.acquire(PAGE)  # never sent
    views.close()
    pool.close()
    gc.collect()
    assert open_fds() == before
