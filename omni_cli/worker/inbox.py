"""The worker's inbox: one thread is the sole reader of the channel.

channel ──> inbox thread ── work (LoadModel, ExecuteModel, Rpc, Shutdown) ──> queue ──> main thread
                 ├── ReleaseSlot ──> ring, at once: the output thread may be waiting for it
                 ├── Cancel ──> the set that the forward looks at between steps
                 └── end of file: the parent is gone, and so is this process
"""

import os
import queue
import threading
from collections.abc import Iterator

from omni_cli.transport.channel import Channel
from omni_cli.transport.messages import Cancel, ReleaseSlot, Shutdown, ToWorker, decode_to_worker
from omni_cli.transport.ring import SlotPool


class Inbox:
    """Messages for the main thread, in order; the rest is dealt with as it arrives."""

    def __init__(self, channel: Channel, pool: SlotPool) -> None:
        """Start reading `channel`."""
        self._channel = channel
        self._pool = pool
        self._work: queue.SimpleQueue[ToWorker] = queue.SimpleQueue()
        self._cancelled: set[int] = set()
        threading.Thread(target=self._read, name="inbox", daemon=True).start()

    def __iter__(self) -> Iterator[ToWorker]:
        """The main thread's messages up to Shutdown."""
        while not isinstance(message := self._work.get(), Shutdown):
            yield message

    def is_cancelled(self, rpc_id: int) -> bool:
        """True once a Cancel for this call has arrived."""
        return rpc_id in self._cancelled

    def forget(self, rpc_id: int) -> None:
        """The call is over; its Cancel, if any, is of no more use."""
        self._cancelled.discard(rpc_id)

    def _read(self) -> None:
        while (received := self._channel.receive()) is not None:
            match decode_to_worker(received[0]):
                case ReleaseSlot(slot_id=slot_id):
                    self._pool.release(slot_id)
                case Cancel(rpc_id=rpc_id):
                    self._cancelled.add(rpc_id)
                case message:
                    self._work.put(message)
        # No cleaning up: the parent is gone, the kernel takes back memory and device alike.
        os._exit(0)
