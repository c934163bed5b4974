"""The worker's inbox: a thread that reads the channel and sorts its messages.

channel ──> inbox thread ── LoadModel, Identify, Execute..., Rpc, Shutdown ──> work queue ──> main thread
                 ├── ExecuteModel, ExecuteStepwise ──> their inputs are prefetched as well
                 ├── ReleaseSlot ──> ring, at once: the output thread may be waiting for a slot
                 ├── Cancel ──> set of active calls, which the forward pass checks between steps
                 ├── Proceed, Cancel ──> decision queue, which a stepwise forward pass reads after each step
                 └── end of file: the parent is gone, so the process exits
"""

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
from omni_cli.worker.error_report import exit_on_error, exit_process


class Inbox:
    """The messages for the main thread in order, and the state of cancellations and step decisions."""

    def __init__(
        self,
        channel: Channel,
        pool: SlotPool,
        on_end: Callable[[], None] = exit_process,
        on_error: Callable[[BaseException], None] = exit_on_error,
        prefetch: Callable[[Sequence[PlannedRequest]], None] = lambda requests: None,
    ) -> None:
        """Start the inbox thread, which calls the callbacks.

        on_end: called when the parent closes the channel; the thread then ends.
        on_error: called with what reading or handling a message raised; the thread then ends.
        prefetch: called with the requests of each call on arrival, in order of execution.
        """
        self._channel = channel
        self._pool = pool
        self._on_end = on_end
        self._on_error = on_error
        self._prefetch = prefetch
        self._work: queue.SimpleQueue[ToWorker] = queue.SimpleQueue()
        self._decisions: queue.SimpleQueue[Proceed | Cancel] = queue.SimpleQueue()
        self._active: set[int] = set()
        threading.Thread(target=self._run, name="inbox", daemon=True).start()

    def __iter__(self) -> Iterator[ToWorker]:
        """Yield the main thread's messages up to Shutdown."""
        while not isinstance(message := self._work.get(), Shutdown):
            yield message

    def is_cancelled(self, rpc_id: int) -> bool:
        """Return True if a Cancel for this unfinished call has arrived."""
        return rpc_id not in self._active

    def wait_for_decision(self, rpc_id: int, step: int) -> Proceed | Cancel:
        """Block until the parent decides on a step of a call; decisions on other steps and calls are dropped."""
        while True:
            decision = self._decisions.get()
            if decision.rpc_id == rpc_id and (isinstance(decision, Cancel) or decision.step == step):
                return decision

    def finish(self, rpc_id: int) -> None:
        """Mark a call as finished; a later Cancel for it has no effect."""
        self._active.discard(rpc_id)

    def _run(self) -> None:
        try:
            while (received := self._channel.receive()) is not None:
                self._handle(decode_to_worker(received[0]))
        except BaseException as error:
            self._on_error(error)
        else:
            self._on_end()

    def _handle(self, message: ToWorker) -> None:
        match message:
            case ReleaseSlot(slot_id=slot_id):
                self._pool.release(slot_id)
            case Cancel(rpc_id=rpc_id):
                self._active.discard(rpc_id)
                self._decisions.put(message)
            case Proceed():
                self._decisions.put(message)
            case ExecuteModel(rpc_id=rpc_id, requests=requests) | ExecuteStepwise(rpc_id=rpc_id, requests=requests):
                self._active.add(rpc_id)
                self._prefetch(requests)
                self._work.put(message)
            case _:
                self._work.put(message)
