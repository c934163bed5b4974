"""The result pump: the one thread that waits for workers.

    worker 0 channel ──┐
    worker 0 sentinel ─┤
    worker 1 ...      ─┼─> multiprocessing.connection.wait ──> messages, exits, deadlines ──> Handler
    wake-up pipe ──────┤      (timeout: the next deadline)
    deadline ──────────┘

While there is a deadline, no wait is longer than TICK_S, so that time in which this process was suspended shows.
In pure step mode the thread is not started: threads that wait for a result do its work in `pump_until`, one at a time.

A worker's exit shows as its sentinel or as the end of its channel, whichever comes first. All messages that it had sent
are handled before its exit is. No read blocks on one worker: a partial message is kept until the rest arrives.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import wait
from typing import Protocol

from omni_cli.errors import ProtocolError
from omni_cli.executor.worker_handle import WorkerHandle, close_fds
from omni_cli.log import logger
from omni_cli.transport.messages import FromWorker, decode_from_worker

TICK_S = 1.0
"""Longest wait while there is a deadline; much more is time in which the process did not run."""

GAP_S = 5.0
"""Seconds beyond a wait that are taken for a suspension (SIGSTOP, a job scheduler) and not for a busy machine."""


class Handler(Protocol):
    """What the pump calls, always from the thread that pumps."""

    def on_message(self, worker: WorkerHandle, message: FromWorker, fds: list[int]) -> None:
        """Handle one message and take over its descriptors. Raises ProtocolError if the worker must not send it now."""

    def on_exit(self, worker: WorkerHandle) -> None:
        """Handle the end of a worker, or of one that was killed for what it sent. All its messages were handled."""

    def on_deadline(self, now: float) -> None:
        """Handle the deadlines that are over at `now`. Also called when none is."""

    def on_gap(self, seconds: float) -> None:
        """Leave `seconds` in which this process did not run out of every deadline."""

    def next_deadline(self) -> float | None:
        """Return when `on_deadline` is due, in seconds on the pump's clock."""

    def on_internal_error(self, error: Exception) -> None:
        """Handle an exception that one of the other methods raised: a bug in this process."""


class Pump:
    """Waits for all workers in one place and passes what happens to a handler."""

    def __init__(
        self,
        handler: Handler,
        clock: Callable[[], float] = time.monotonic,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the wake-up pipe; `start` or `pump_until` does the waiting.

        `clock` is for deadlines, `elapsed` for the time in which this process did not run.
        """
        self._handler = handler
        self._clock = clock
        self._elapsed = elapsed
        self._waited_at: float | None = None
        self._workers: list[WorkerHandle] = []
        self._lock = threading.Lock()
        self._pumping = threading.RLock()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._stopping = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="result-pump", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def pump_until(self, condition: Callable[[], bool]) -> None:
        """Do the thread's work on this thread until `condition()`, which is evaluated after every event."""
        while not condition() and not self._stopping:
            with self._pumping:
                if not condition() and not self._stopping:
                    self._wait_once()

    def watch(self, worker: WorkerHandle) -> None:
        """Wait for this worker too, from now on."""
        with self._lock:
            self._workers.append(worker)
        self.wake()

    def wake(self) -> None:
        """Make the pumping thread look at workers, deadlines and conditions again."""
        with self._lock:
            if not self._closed:
                with contextlib.suppress(BlockingIOError):  # a full pipe wakes it as well
                    os.write(self._writer, b"!")

    def stop(self) -> None:
        """Handle the last messages of the workers, which have all exited, and end the thread.

        No handler is called afterwards.
        """
        self._stopping = True
        self.wake()
        if self._thread.ident is not None:
            self._thread.join()
        else:
            with self._pumping:
                self._finish_all()
        with self._lock:  # nobody writes to a descriptor number that was reused
            self._closed = True
            os.close(self._reader)
            os.close(self._writer)

    def _run(self) -> None:
        while not self._stopping:
            self._wait_once()
        self._finish_all()

    def _wait_once(self) -> None:
        """Wait for the next event and handle all that are there."""
        workers = self._watched()
        deadline = self._handler.next_deadline()
        timeout = None if deadline is None else min(max(0.0, deadline - self._clock()), TICK_S)
        channels = [worker.channel.fileno() for worker in workers]
        sentinels = [worker.process.sentinel for worker in workers if worker.process.sentinel is not None]
        if self._waited_at is None:
            self._waited_at = self._elapsed()
        ready = set(wait([self._reader, *channels, *sentinels], timeout))
        self._look_for_gap(timeout)
        if self._reader in ready:
            os.read(self._reader, 4096)
        for worker in workers:
            if worker.channel.fileno() in ready:
                self._guard(partial(self._receive, worker))
            elif worker.process.sentinel in ready:
                self._guard(partial(self._finish, worker))
        if deadline is not None:
            self._guard(lambda: self._handler.on_deadline(self._clock()))

    def _look_for_gap(self, timeout: float | None) -> None:
        """Report if much more time than `timeout` has passed since the end of the wait before: a suspended job.

        Without a deadline, a wait may take any time.
        """
        now, before = self._elapsed(), self._waited_at
        self._waited_at = None if timeout is None else now
        if timeout is not None and before is not None and (gap := now - before - timeout) > GAP_S:
            logger.warning("this process did not run for %.0f s; they count for no deadline", gap)
            self._handler.on_gap(gap)

    def _guard(self, step: Callable[[], None]) -> None:
        """Run `step`. An exception must not end this thread, which would leave every waiter hanging."""
        try:
            step()
        except Exception as error:
            logger.exception("internal error in the result pump")
            self._handler.on_internal_error(error)

    def _receive(self, worker: WorkerHandle) -> None:
        is_open = worker.channel.read_available()
        if not (self._handle_messages(worker) and is_open):
            self._finish(worker)

    def _finish(self, worker: WorkerHandle) -> None:
        """Handle what the worker sent before it ended, then its end."""
        while wait([worker.channel.fileno()], 0) and worker.channel.read_available():
            self._handle_messages(worker)
        with self._lock:
            self._workers.remove(worker)
        self._handler.on_exit(worker)

    def _finish_all(self) -> None:
        for worker in self._watched():
            self._guard(partial(self._finish, worker))

    def _handle_messages(self, worker: WorkerHandle) -> bool:
        """Handle the messages that are there; False if the worker broke the protocol, for which it is killed."""
        try:
            for body, fds in worker.channel.messages():
                try:
                    message = decode_from_worker(body)
                except ProtocolError:
                    close_fds(fds)
                    raise
                self._handler.on_message(worker, message, fds)
        except ProtocolError as error:
            worker.kill(f"broke the protocol and was killed: {error}")
            return False
        return True

    def _watched(self) -> list[WorkerHandle]:
        with self._lock:
            return list(self._workers)
