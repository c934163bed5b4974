"""The ring: slots of anonymous shared memory that outputs are written into once and encoded from in place.

    worker: SlotPool.acquire ──> Slot, mapped once ── OutputReady(SlotRef, descriptor if fresh) ──> parent
    parent: SlotViews.view   ──> memoryview over the same pages ── ReleaseSlot ──> SlotPool.release

A slot is a memory file without a name: nothing appears under /dev/shm, and the memory is freed with the last process
that maps it. The budget bounds the bytes of all slots. If a payload fits no free slot and the budget leaves no room for
another, free slots are retired. A payload larger than the whole budget gets a slot of its own once no other slot is
busy.
"""

import contextlib
import mmap
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from omni_cli.errors import EngineError
from omni_cli.storage.memory_file import memory_file
from omni_cli.transport.messages import SlotRef


@dataclass(slots=True)
class Slot:
    """A slot in the worker. While `fresh`, the parent does not have its descriptor `fd`; afterwards `fd` is closed.

    `pinned` says that its memory is registered with the driver.
    """

    id: int
    fd: int
    memory: mmap.mmap
    capacity: int
    fresh: bool = True
    pinned: bool = False

    def ref(self, nbytes: int, retired: tuple[int, ...]) -> SlotRef:
        """Return the reference to the slot's first `nbytes` bytes for a message, which also reports `retired` slots."""
        return SlotRef(slot_id=self.id, nbytes=nbytes, capacity=self.capacity, fresh=self.fresh, retired=retired)


def anonymous_memory(nbytes: int) -> int:
    """Return a descriptor of `nbytes` of zeroed memory without a name."""
    with memory_file() as file:
        fd = os.dup(file.fileno())
    os.ftruncate(fd, nbytes)
    return fd


class SlotPool:
    """The slots of a worker. The output thread acquires, the inbox thread releases."""

    def __init__(
        self,
        budget: int,
        pin: Callable[[mmap.mmap], bool] = lambda memory: False,
        unpin: Callable[[mmap.mmap], object] = lambda memory: None,
    ) -> None:
        """Bound the bytes of all slots by `budget`.

        `pin` registers new memory with a driver and returns whether it has: after the first refusal it is not asked
        again. `unpin` is called for memory that was registered, before it is unmapped.
        """
        self._budget = budget
        self._pin = pin
        self._unpin = unpin
        self._pins = True
        self._changed = threading.Condition()
        self._reserved = 0
        self._free: dict[int, Slot] = {}
        self._busy: dict[int, Slot] = {}
        self._retired: list[int] = []
        self._next_id = 0
        self._closed = False

    def acquire(self, nbytes: int) -> Slot:
        """Return a slot of at least `nbytes`; block until there is room. Raises EngineError if the pool is closed."""
        capacity = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        with self._changed:
            while True:
                if self._closed:
                    raise EngineError("the worker is shutting down: its output ring is closed")
                if (slot := self._pop_free(nbytes)) is not None:
                    self._busy[slot.id] = slot
                    return slot
                if self._reserve(capacity):
                    break
                self._changed.wait()
        # Registration takes a driver milliseconds per 100 MB; a slot may be released meanwhile.
        slot = None
        try:
            slot = self._create(capacity)
        finally:
            with self._changed:
                self._reserved -= capacity
                if slot is not None:
                    self._busy[slot.id] = slot
                self._changed.notify_all()
        return slot

    def release(self, slot_id: int) -> None:
        """Make a busy slot free again. Raises KeyError if it is not busy, which is a bug."""
        with self._changed:
            self._free[slot_id] = self._busy.pop(slot_id)
            self._changed.notify_all()

    def take_retired(self) -> tuple[int, ...]:
        """Return the ids of the slots retired since the last call; the next message must report them to the parent."""
        with self._changed:
            retired, self._retired = tuple(self._retired), []
            return retired

    def mark_shared(self, slot: Slot) -> None:
        """Close the descriptor of a slot that the parent has received; from now on messages name its id alone."""
        if slot.fresh:
            os.close(slot.fd)
            slot.fresh = False

    def usage(self) -> tuple[int, int]:
        """Return the number of slots and their bytes."""
        with self._changed:
            slots = [*self._free.values(), *self._busy.values()]
            return len(slots), sum(slot.capacity for slot in slots)

    def close(self) -> None:
        """Unmap all slots; threads blocked in `acquire` raise."""
        with self._changed:
            self._closed = True
            for slot in [*self._free.values(), *self._busy.values()]:
                self._unmap(slot)
            self._free.clear()
            self._busy.clear()
            self._changed.notify_all()

    def _pop_free(self, nbytes: int) -> Slot | None:
        """Return the smallest free slot of at least `nbytes`, if any."""
        fitting = [slot for slot in self._free.values() if slot.capacity >= nbytes]
        return self._free.pop(min(fitting, key=lambda slot: slot.capacity).id) if fitting else None

    def _reserve(self, capacity: int) -> bool:
        """Make room for a new slot, by retiring free ones if the budget needs it; False if busy ones leave no room."""
        busy = sum(slot.capacity for slot in self._busy.values()) + self._reserved
        if busy and busy + capacity > self._budget:
            return False
        while self._free and busy + capacity + sum(slot.capacity for slot in self._free.values()) > self._budget:
            slot = self._free.pop(next(iter(self._free)))
            self._unmap(slot)
            self._retired.append(slot.id)
        self._reserved += capacity
        return True

    def _create(self, capacity: int) -> Slot:
        """Map and register a new slot."""
        fd = anonymous_memory(capacity)
        try:
            memory = mmap.mmap(fd, capacity)
        except OSError:
            os.close(fd)
            raise
        pinned = self._pins and self._pin(memory)
        if not pinned:
            self._pins = False
        with self._changed:
            self._next_id += 1
            return Slot(id=self._next_id, fd=fd, memory=memory, capacity=capacity, pinned=pinned)

    def _unmap(self, slot: Slot) -> None:
        if slot.pinned:
            self._unpin(slot.memory)
        if slot.fresh:
            os.close(slot.fd)
        with contextlib.suppress(BufferError):  # a tensor still views it: the mapping goes with the tensor
            slot.memory.close()


class SlotViews:
    """The parent's mappings of one worker's slots. The pump thread maps; any thread may use a view."""

    def __init__(self) -> None:
        self._maps: dict[int, mmap.mmap] = {}

    def view(self, ref: SlotRef, fds: list[int]) -> memoryview:
        """Return the payload as read-only bytes, valid until the slot is released. Closes `fds`.

        Raises KeyError, IndexError or ValueError for a reference to memory that does not exist.
        """
        try:
            for slot_id in ref.retired:
                self._drop(slot_id)
            if ref.fresh:
                self._maps[ref.slot_id] = mmap.mmap(fds[0], ref.capacity, access=mmap.ACCESS_READ)
        finally:
            for fd in fds:
                os.close(fd)
        return memoryview(self._maps[ref.slot_id])[: ref.nbytes]

    def close(self) -> None:
        """Unmap all slots; one with a view in use is unmapped with its last view."""
        for slot_id in list(self._maps):
            self._drop(slot_id)

    def _drop(self, slot_id: int) -> None:
        with contextlib.suppress(BufferError):
            self._maps.pop(slot_id).close()
