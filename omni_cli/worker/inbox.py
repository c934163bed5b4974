"""The worker's inbox: one thread is the sole reader of the channel.

channel ──> inbox thread ── work (LoadModel, ExecuteModel, Rpc, Shutdown) ──> queue ──> main thread
                 ├── ExecuteModel ──> its inputs are read ahead as well
                 ├── ReleaseSlot ──> ring, at once: the output thread may be waiting for it
                 ├── Cancel ──> the call is struck off the wanted ones, which the forward looks at between steps
                 ├── Proceed, Cancel ──> queue of decisions, which a stepwise forward waits for after each step
                 └── end of file: the parent is gone, and so is this process
"""

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence

from omni_cli.request import PlannedRequest
from omni_cli.transport.channel import Channel
from omni_cli.transport.messages import (
    Cancel,
    ExecuteModel,
    ExecuteStepwise,
    Proceed,
    ReleaseSlot,
    Shutdown,
    ToWorker,
    decode_to_worker,
)
from omni_cli.transport.ring import SlotPool
from omni_cli.worker.faults import give_up


def leave() -> None:
    """The parent is gone. No cleaning up: the kernel takes back memory and device alike, whatever the main thread does."""
    os._exit(0)


class Inbox:
    """Messages for the main thread, in order; the rest is dealt with as it arrives."""

    def __init__(
        self,
        channel: Channel,
        pool: SlotPool,
        on_end: Callable[[], None] = leave,
        on_fault: Callable[[BaseException], None] = give_up,
        expect: Callable[[Sequence[PlannedRequest]], None] = lambda requests: None,
    ) -> None:
        """Start reading `channel`. All callbacks come from the inbox thread, which ends after the first two.

        `expect` hears of requests when they arrive, in the order in which they will be executed.
        """
        self._channel = channel
        self._pool = pool
        self._on_end = on_end
        self._on_fault = on_fault
        self._expect = expect
        self._work: queue.SimpleQueue[ToWorker] = queue.SimpleQueue()
        self._decisions: queue.SimpleQueue[Proceed | Cancel] = queue.SimpleQueue()
        self._wanted: set[int] = set()
        threading.Thread(target=self._read, name="inbox", daemon=True).start()

    def __iter__(self) -> Iterator[ToWorker]:
        """The main thread's messages up to Shutdown."""
        while not isinstance(message := self._work.get(), Shutdown):
            yield message

    def is_cancelled(self, rpc_id: int) -> bool:
        """True once a Cancel for this call, which is not over, has arrived."""
        return rpc_id not in self._wanted

    def decision(self, rpc_id: int, step: int) -> Proceed | Cancel:
        """What the parent says to this step of this call; waits for it. Words on other calls and steps are out of date."""
        while True:
            decision = self._decisions.get()
            if decision.rpc_id == rpc_id and (isinstance(decision, Cancel) or decision.step == step):
                return decision

    def forget(self, rpc_id: int) -> None:
        """The call is over; a Cancel that still comes is of no use."""
        self._wanted.discard(rpc_id)

    def _read(self) -> None:
        try:
            while (received := self._channel.receive()) is not None:
                self._take(decode_to_worker(received[0]))
        except BaseException as error:
            self._on_fault(error)
        else:
            self._on_end()

    def _take(self, message: ToWorker) -> None:
        match message:
            case ReleaseSlot(slot_id=slot_id):
                self._pool.release(slot_id)
            case Cancel(rpc_id=rpc_id):
                self._wanted.discard(rpc_id)
                self._decisions.put(message)
            case Proceed():
                self._decisions.put(message)
            case ExecuteModel(rpc_id=rpc_id, requests=requests) | ExecuteStepwise(rpc_id=rpc_id, requests=requests):
                self._wanted.add(rpc_id)
                self._expect(requests)
                self._work.put(message)
            case _:
                self._work.put(message)
