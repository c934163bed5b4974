"""The ring: slots of anonymous shared memory that outputs are written into once and encoded from in place.

    worker: SlotPool.acquire ──> Slot (mapped, registered with the driver once) ── OutputReady(slot_id, fd if fresh) ──>
    parent: SlotViews.view   ──> memoryview over the same pages ── ReleaseSlot ──> SlotPool.release

A slot is a memory file without a name: nothing under /dev/shm to leak or to fill, gone with the last process that maps it.
The budget bounds the bytes of all slots. When a payload fits no free slot and no budget is left, free slots are retired to
make room; a payload larger than the whole budget gets a slot of its own once nothing else is in flight.
"""

import contextlib
import mmap
import os
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass

from omni_cli.errors import EngineError
from omni_cli.transport.messages import SlotRef


@dataclass(slots=True)
class Slot:
    """A slot on the worker's side. `fd` is closed once the parent has it; `pinned` if the driver knows the pages."""

    id: int
    fd: int
    memory: mmap.mmap
    capacity: int
    fresh: bool = True

    def ref(self, nbytes: int, retired: tuple[int, ...]) -> SlotRef:
        """What the message says of this slot."""
        return SlotRef(slot_id=self.id, nbytes=nbytes, capacity=self.capacity, fresh=self.fresh, retired=retired)


def anonymous_memory(nbytes: int) -> int:
    """Descriptor of `nbytes` of zeroed memory that has no name; an unlinked temporary file where there is no memfd."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("omni-gen", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, nbytes)
    return fd


class SlotPool:
    """The worker's slots. Threads: the output thread acquires, the inbox thread releases."""

    def __init__(
        self,
        budget: int,
        on_map: Callable[[mmap.mmap], None] | None = None,
        on_unmap: Callable[[mmap.mmap], None] | None = None,
    ) -> None:
        """`budget` in bytes over all slots; `on_map` and `on_unmap` see each mapping once (driver registration)."""
        self._budget = budget
        self._on_map = on_map or (lambda memory: None)
        self._on_unmap = on_unmap or (lambda memory: None)
        self._changed = threading.Condition()
        self._free: dict[int, Slot] = {}
        self._busy: dict[int, Slot] = {}
        self._retired: list[int] = []
        self._next_id = 0
        self._closed = False

    def acquire(self, nbytes: int) -> Slot:
        """A slot of at least `nbytes`; waits while the budget is in use. Raises EngineError once the pool is closed."""
        with self._changed:
            while True:
                if self._closed:
                    raise EngineError("the worker is shutting down; its output ring is closed")
                slot = self._take_free(nbytes) or self._make(nbytes)
                if slot is not None:
                    self._busy[slot.id] = slot
                    return slot
                self._changed.wait()

    def release(self, slot_id: int) -> None:
        """The parent no longer reads this slot; an id that is not busy is a bug and raises KeyError."""
        with self._changed:
            slot = self._busy.pop(slot_id)
            self._free[slot_id] = slot
            self._changed.notify_all()

    def take_retired(self) -> tuple[int, ...]:
        """The ids retired since the last call: the next message tells the parent of them."""
        with self._changed:
            retired, self._retired = tuple(self._retired), []
            return retired

    def shared(self, slot: Slot) -> None:
        """The parent has the descriptor: ours is closed, and the slot travels by id alone from now on."""
        if slot.fresh:
            os.close(slot.fd)
            slot.fresh = False

    def usage(self) -> tuple[int, int]:
        """Number of slots and their bytes."""
        with self._changed:
            slots = [*self._free.values(), *self._busy.values()]
            return len(slots), sum(slot.capacity for slot in slots)

    def close(self) -> None:
        """Unmap everything and wake those who wait."""
        with self._changed:
            self._closed = True
            for slot in [*self._free.values(), *self._busy.values()]:
                self._unmap(slot)
            self._free.clear()
            self._busy.clear()
            self._changed.notify_all()

    def _take_free(self, nbytes: int) -> Slot | None:
        """The smallest free slot that is large enough."""
        fitting = [slot for slot in self._free.values() if slot.capacity >= nbytes]
        return self._free.pop(min(fitting, key=lambda slot: slot.capacity).id) if fitting else None

    def _make(self, nbytes: int) -> Slot | None:
        """A new slot if the budget allows it, after retiring free ones; None if busy slots leave no room."""
        capacity = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        busy = sum(slot.capacity for slot in self._busy.values())
        if busy and busy + capacity > self._budget:
            return None
        while self._free and busy + capacity + sum(slot.capacity for slot in self._free.values()) > self._budget:
            self._retire(self._free.pop(next(iter(self._free))))
        fd = anonymous_memory(capacity)
        memory = mmap.mmap(fd, capacity)
        self._on_map(memory)
        self._next_id += 1
        return Slot(id=self._next_id, fd=fd, memory=memory, capacity=capacity)

    def _retire(self, slot: Slot) -> None:
        self._unmap(slot)
        self._retired.append(slot.id)

    def _unmap(self, slot: Slot) -> None:
        self._on_unmap(slot.memory)
        if slot.fresh:
            os.close(slot.fd)
        with contextlib.suppress(BufferError):  # a tensor still looks at it; the mapping goes with the tensor
            slot.memory.close()


class SlotViews:
    """The parent's mappings of one worker's slots. One thread (the pump) maps; any thread may hold a view."""

    def __init__(self) -> None:
        """Nothing is mapped yet."""
        self._maps: dict[int, mmap.mmap] = {}

    def view(self, ref: SlotRef, fds: list[int]) -> memoryview:
        """Read-only bytes of the payload, valid until the slot is released. Takes over `fds`.

        Raises KeyError, IndexError or ValueError for a reference that cannot be.
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
        """Unmap what nobody looks at; what is still looked at goes with its last view."""
        for slot_id in list(self._maps):
            self._drop(slot_id)

    def _drop(self, slot_id: int) -> None:
        with contextlib.suppress(BufferError):
            self._maps.pop(slot_id).close()
