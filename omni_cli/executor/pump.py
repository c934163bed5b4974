"""The result pump: the one thread that waits, and the sole resolver of futures.

    worker 0 channel ─┐
    worker 0 sentinel ┤
    worker 1 ...      ┼── multiprocessing.connection.wait ──> pump thread ──> handler
    wake-up pipe ─────┤        (timeout: the earliest output deadline)
    deadline ─────────┘

A worker's death is told by its sentinel or by the end of its channel, whichever comes first; all it had sent is handled
before its death is.
"""

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Protocol

from omni_cli.executor.launch import WorkerProcess
from omni_cli.log import logger
from omni_cli.transport.messages import FromWorker, decode_from_worker


class Handler(Protocol):
    """What the pump tells; all calls come from the pump's thread."""

    def on_message(self, worker: WorkerProcess, message: FromWorker, fds: list[int]) -> None:
        """A message arrived; its descriptors are now the handler's."""

    def on_death(self, worker: WorkerProcess) -> None:
        """The worker is gone and all it sent has been handled."""

    def on_tick(self, now: float) -> None:
        """A deadline may have passed."""

    def next_deadline(self) -> float | None:
        """When `on_tick` is wanted, on the monotonic clock."""


class Pump:
    """Waits for all workers in one place."""

    def __init__(self, handler: Handler) -> None:
        """Not started yet."""
        self._handler = handler
        self._workers: list[WorkerProcess] = []
        self._lock = threading.Lock()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="result-pump", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def watch(self, worker: WorkerProcess) -> None:
        """Wait for this worker too, from now on."""
        with self._lock:
            self._workers.append(worker)
        self.wake()

    def wake(self) -> None:
        """Let the thread look at its lists and deadlines again."""
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes it as well
            os.write(self._writer, b"!")

    def stop(self) -> None:
        """End the thread; no handler is called after this returns."""
        if self._stopping:
            return
        self._stopping = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join()
        os.close(self._reader)
        os.close(self._writer)

    def _run(self) -> None:
        while not self._stopping:
            with self._lock:
                workers = list(self._workers)
            deadline = self._handler.next_deadline()
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = {handle for handle in wait([self._reader, *_handles(workers)], timeout) if isinstance(handle, int)}
            if self._reader in ready:
                os.read(self._reader, 4096)
            for worker in workers:
                if worker.channel.fileno() in ready:
                    self._guard(worker, self._receive)
                elif worker.sentinel in ready:
                    self._guard(worker, self._bury)
            self._handler.on_tick(time.monotonic())

    def _guard(self, worker: WorkerProcess, step: Callable[[WorkerProcess], None]) -> None:
        """A fault in handling one worker's messages must not leave every waiter hanging: it counts as that worker's death."""
        try:
            step(worker)
        except Exception:
            logger.exception("handling a message of worker process %d failed; it is treated as dead", worker.pid)
            self._forget(worker)
            worker.process.kill()
            self._handler.on_death(worker)

    def _receive(self, worker: WorkerProcess) -> None:
        received = worker.channel.receive()
        if received is None:
            self._bury(worker)
            return
        self._handler.on_message(worker, decode_from_worker(received[0]), received[1])

    def _bury(self, worker: WorkerProcess) -> None:
        """Handle what the worker had sent before it died, then its death."""
        while select.select([worker.channel], [], [], 0)[0]:
            received = worker.channel.receive()
            if received is None:
                break
            self._handler.on_message(worker, decode_from_worker(received[0]), received[1])
        self._forget(worker)
        self._handler.on_death(worker)

    def _forget(self, worker: WorkerProcess) -> None:
        with self._lock:
            self._workers.remove(worker)


def _handles(workers: list[WorkerProcess]) -> list[int]:
    handles = [worker.channel.fileno() for worker in workers]
    return handles + [worker.sentinel for worker in workers if worker.sentinel is not None]
