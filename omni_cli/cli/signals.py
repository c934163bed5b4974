"""Stop signals during a run: the first finishes what is computed, a second one ends the process at once.

signal ── C handler ──> wake-up pipe ──> signals thread ── first ──────────────> stop the run
                                                        ├─ `timeout` later ────> kill the workers
                                                        └─ second, or overdue ─> kill the workers, exit

A Python signal handler runs on the main thread between two bytecodes: a signal just before that thread begins to wait
would be handled only after the wait, perhaps a whole forward later. The pipe is written at once.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

WRITE_S = 2.0
"""Seconds after the time-out in which outputs that have been computed may still be written."""


def heeded_signals() -> tuple[signal.Signals, ...]:
    """Return the stop signals that the parent process has not set to be ignored.

    A shell ignores SIGINT for the background jobs of a script, `nohup` ignores SIGHUP.
    """
    return tuple(number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN)


@contextmanager
def stopping(
    on_first: Callable[[int], None],
    on_second: Callable[[], None],
    *,
    timeout: float | None = None,
    on_timeout: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Handle the stop signals that are heeded within the block; enter it on the main thread.

    The first signal calls `on_first` with its number, and `timeout` seconds later (None: never) `on_timeout`. The
    second SIGINT or SIGTERM calls `on_second` and ends the process, and so does the end of WRITE_S after the time-out.
    A further SIGHUP does nothing: a terminal that closes sends several. All functions run on the signals thread.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    arguments = (reader, on_first, on_second, timeout, on_timeout)
    thread = threading.Thread(target=_watch, args=arguments, name="signals", daemon=True)
    thread.start()
    handlers = {number: signal.signal(number, lambda number, frame: None) for number in heeded_signals()}
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


def _watch(
    reader: int,
    on_first: Callable[[int], None],
    on_second: Callable[[], None],
    timeout: float | None,
    on_timeout: Callable[[], None],
) -> None:
    """Read one byte per signal until the pipe is closed, and watch the time after the first one."""

    def leave() -> None:
        on_second()
        # No clean-up: writer threads may hang on a dead disk, a worker in a dead driver.
        os._exit(128 + first)

    first = 0
    deadlines: list[tuple[float, Callable[[], None]]] = []
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    while True:
        wait_ms = max(0.0, deadlines[0][0] - time.monotonic()) * 1000 if deadlines else None
        if not poll.poll(wait_ms):
            deadlines.pop(0)[1]()
            continue
        received = os.read(reader, 64)
        if not received:
            return
        for number in received:
            if number not in STOP_SIGNALS or (first and number == signal.SIGHUP):
                continue
            if first:
                leave()
            first = number
            if timeout is not None:
                now = time.monotonic()
                deadlines = [(now + timeout, on_timeout), (now + timeout + WRITE_S, leave)]
            on_first(number)
