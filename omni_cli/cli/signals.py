"""Ctrl-C and SIGTERM while a run is on: once to finish what is computed, twice to leave at once.

signal ── C handler ──> wake-up pipe ──> signals thread ── first: stop ──> the run · second ──> gone

A Python handler would run on the main thread, between two bytecodes: a signal that comes just before that thread begins to
wait would be seen only when the wait ends, which may be a forward later. The pipe is written at once.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopping(on_first: Callable[[int], None], on_second: Callable[[], None]) -> Iterator[None]:
    """Handle SIGINT and SIGTERM: the first calls `on_first` with its number, the second `on_second` and ends the process at once.

    Both are called on a thread of their own. Must be entered on the main thread.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    thread = threading.Thread(target=_watch, args=(reader, on_first, on_second), name="signals", daemon=True)
    thread.start()
    handlers = {number: signal.signal(number, lambda number, frame: None) for number in _SIGNALS}
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(writer)
        thread.join()
        os.close(reader)


def _watch(reader: int, on_first: Callable[[int], None], on_second: Callable[[], None]) -> None:
    """One byte for each signal, until the pipe is closed."""
    first = 0
    while received := os.read(reader, 64):
        for number in received:
            if number not in _SIGNALS:
                continue
            if first:
                on_second()
                # Nothing below is waited for: writer threads may hang in a dead disk, a worker in a dead driver.
                os._exit(128 + first)
            first = number
            on_first(number)
