"""Requests that arrive in their own time, in bursts: what is there now is grouped and batched, and nothing is waited for.

    reader thread ── next(planned) ──> queue, bounded ──> burst, burst, ...   each an iterator over what has arrived by then

A slow source gives bursts of one, a fast one fills the queue, which then holds the source back.
"""

import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress

from omni_cli.batch.stop import Stop
from omni_cli.request import PlannedRequest

_End = BaseException | None
"""What ends a source: nothing in particular, or what it raised."""


def bursts(planned: Iterable[PlannedRequest], stop: Stop, ahead: int) -> Iterator[Iterator[PlannedRequest]]:
    """Bursts of `planned`, until it ends or a stop is requested; at most `ahead` requests wait in memory.

    Each burst must be used up before the next is asked for. Raises what `planned` raises, after what came before it. The thread that
    reads `planned` may stay in a read that never returns; it does not keep the process.
    """
    arrived: queue.Queue[PlannedRequest | _End] = queue.Queue(max(1, ahead))
    threading.Thread(target=_read, args=(planned, arrived), name="prompts", daemon=True).start()
    stopped = threading.Event()

    def wake() -> None:
        stopped.set()
        with suppress(queue.Full):  # nobody waits for a full one to be filled
            arrived.put_nowait(None)

    with stop.waking(wake):
        while not stopped.is_set():
            first = arrived.get()
            if not isinstance(first, PlannedRequest):
                if first is not None and not stopped.is_set():
                    raise first
                return
            burst = _Burst(first, arrived)
            yield burst
            if burst.ended:
                if burst.error is not None:
                    raise burst.error
                return


class _Burst(Iterator[PlannedRequest]):
    """`first` and what has arrived behind it; remembers if the end was among that."""

    def __init__(self, first: PlannedRequest, arrived: "queue.Queue[PlannedRequest | _End]") -> None:
        self._first: PlannedRequest | None = first
        self._arrived = arrived
        self.ended = False
        self.error: _End = None

    def __next__(self) -> PlannedRequest:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        if self.ended:
            raise StopIteration
        try:
            found = self._arrived.get_nowait()
        except queue.Empty:
            raise StopIteration from None
        if isinstance(found, PlannedRequest):
            return found
        self.ended, self.error = True, found
        raise StopIteration


def _read(planned: Iterable[PlannedRequest], arrived: "queue.Queue[PlannedRequest | _End]") -> None:
    try:
        for request in planned:
            arrived.put(request)
    except BaseException as error:
        arrived.put(error)
    else:
        arrived.put(None)
