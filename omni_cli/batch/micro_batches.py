"""Micro-batches of a live source: requests that have arrived are batched together, and none waits for a later one.

    reader thread ── next(planned) ──> bounded queue ──> micro-batch, micro-batch, ...   each: what has arrived so far

A slow source gives micro-batches of one request. A fast one fills the queue, which then blocks the reader.
"""

import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress

from omni_cli.batch.stop import Stop
from omni_cli.request import PlannedRequest

_End = BaseException | None
"""The end of a source: None, or the exception it raised."""


def micro_batches(planned: Iterable[PlannedRequest], stop: Stop, ahead: int) -> Iterator[Iterator[PlannedRequest]]:
    """Yield `planned` in micro-batches until it ends or a stop is requested; at most `ahead` requests wait in memory.

    Consume each micro-batch before asking for the next. Raises what `planned` raises, after the requests before it.
    `planned` is read on a daemon thread: a read that never returns does not keep the process alive.
    """
    arrived: queue.Queue[PlannedRequest | _End] = queue.Queue(max(1, ahead))
    threading.Thread(target=_read, args=(planned, arrived), name="prompts", daemon=True).start()
    stopped = threading.Event()

    def wake() -> None:
        stopped.set()
        with suppress(queue.Full):  # a full queue does not block the reader of it
            arrived.put_nowait(None)

    with stop.waking(wake):
        while not stopped.is_set():
            first = arrived.get()
            if not isinstance(first, PlannedRequest):
                if first is not None and not stopped.is_set():
                    raise first
                return
            batch = _MicroBatch(first, arrived)
            yield batch
            if batch.at_end:
                if batch.error is not None:
                    raise batch.error
                return


class _MicroBatch(Iterator[PlannedRequest]):
    """`first` and the requests that have arrived after it; `at_end` if the end of the source was among them."""

    def __init__(self, first: PlannedRequest, arrived: "queue.Queue[PlannedRequest | _End]") -> None:
        self._first: PlannedRequest | None = first
        self._arrived = arrived
        self.at_end = False
        self.error: _End = None

    def __next__(self) -> PlannedRequest:
        """Return the next request that has already arrived."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        if self.at_end:
            raise StopIteration
        try:
            item = self._arrived.get_nowait()
        except queue.Empty:
            raise StopIteration from None
        if isinstance(item, PlannedRequest):
            return item
        self.at_end, self.error = True, item
        raise StopIteration


def _read(planned: Iterable[PlannedRequest], arrived: "queue.Queue[PlannedRequest | _End]") -> None:
    try:
        for request in planned:
            arrived.put(request)
    except BaseException as error:
        arrived.put(error)
    else:
        arrived.put(None)
