"""The result pump: the one thread that waits, and the one that settles futures with results.

    worker 0 channel ─┐
    worker 0 sentinel ┤
    worker 1 ...      ┼── multiprocessing.connection.wait ──> pump thread ──> handler
    wake-up pipe ─────┤        (timeout: the earliest deadline)
    deadline ─────────┘

In pure step mode there is no such thread: whoever waits for something does its work meanwhile (`drive`), one at a time.

A worker's death is told by its sentinel or by the end of its channel, whichever comes first; all it had sent is handled
before its death is. Nothing here waits for one worker alone: half a message is left until the rest of it comes.
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
from omni_cli.executor.link import Link, close_all
from omni_cli.log import logger
from omni_cli.transport.messages import FromWorker, decode_from_worker


class Handler(Protocol):
    """What the pump tells; all calls come from the pump's thread."""

    def on_message(self, link: Link, message: FromWorker, fds: list[int]) -> None:
        """A message arrived; its descriptors are now the handler's. ProtocolError means that it should not have."""

    def on_death(self, link: Link) -> None:
        """The worker is gone, or condemned, and all it sent has been handled."""

    def on_tick(self, now: float) -> None:
        """A deadline may have passed."""

    def next_deadline(self) -> float | None:
        """When `on_tick` is wanted, on the monotonic clock."""

    def on_fault(self, error: Exception) -> None:
        """One of the above raised: a bug, and no worker's fault."""


class Pump:
    """Waits for all workers in one place."""

    def __init__(self, handler: Handler) -> None:
        """Not started yet."""
        self._handler = handler
        self._links: list[Link] = []
        self._lock = threading.Lock()
        self._driving = threading.RLock()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._stopping = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="result-pump", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def drive(self, until: Callable[[], bool]) -> None:
        """Do the thread's work on this one until `until()`, which is looked at after everything that happens."""
        while not until() and not self._stopping:
            with self._driving:
                if not until() and not self._stopping:
                    self._turn()

    def watch(self, link: Link) -> None:
        """Wait for this worker too, from now on."""
        with self._lock:
            self._links.append(link)
        self.wake()

    def wake(self) -> None:
        """Let the thread look at its lists and deadlines again."""
        with self._lock:
            if not self._closed:
                with contextlib.suppress(BlockingIOError):  # a full pipe wakes it as well
                    os.write(self._writer, b"!")

    def stop(self) -> None:
        """Handle what the workers, which have all ended, sent last, and end the thread: no handler is called any more."""
        self._stopping = True
        self.wake()
        if self._thread.ident is not None:
            self._thread.join()
        else:
            with self._driving:
                self._bury_all()
        with self._lock:  # nobody writes to a descriptor whose number may be another file's by now
            self._closed = True
            os.close(self._reader)
            os.close(self._writer)

    def _run(self) -> None:
        while not self._stopping:
            self._turn()
        self._bury_all()

    def _bury_all(self) -> None:
        for link in self._watched():
            self._guard(partial(self._bury, link))

    def _turn(self) -> None:
        links = self._watched()
        deadline = self._handler.next_deadline()
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = set(wait([self._reader, *_handles(links)], timeout))
        if self._reader in ready:
            os.read(self._reader, 4096)
        for link in links:
            if link.process.channel.fileno() in ready:
                self._guard(partial(self._receive, link))
            elif link.process.sentinel in ready:
                self._guard(partial(self._bury, link))
        if deadline is not None:
            self._guard(lambda: self._handler.on_tick(time.monotonic()))

    def _guard(self, step: Callable[[], None]) -> None:
        """A fault in handling must not end this thread and leave every waiter hanging."""
        try:
            step()
        except Exception as error:
            logger.exception("the result pump met a fault")
            self._handler.on_fault(error)

    def _receive(self, link: Link) -> None:
        alive = link.process.channel.take_in()
        if not (self._handle(link) and alive):
            self._bury(link)

    def _bury(self, link: Link) -> None:
        """Handle what the worker had sent before it died, then its death."""
        while wait([link.process.channel.fileno()], 0) and link.process.channel.take_in():
            self._handle(link)
        with self._lock:
            self._links.remove(link)
        self._handler.on_death(link)

    def _handle(self, link: Link) -> bool:
        """Handle the messages that are there; False if the worker sent something it must not, for which it is killed."""
        try:
            for body, fds in link.process.channel.messages():
                try:
                    message = decode_from_worker(body)
                except ProtocolError:
                    close_all(fds)
                    raise
                self._handler.on_message(link, message, fds)
        except ProtocolError as error:
            link.condemn(f"sent something it must not and was killed: {error}")
            return False
        return True

    def _watched(self) -> list[Link]:
        with self._lock:
            return list(self._links)


def _handles(links: list[Link]) -> list[int]:
    handles = [link.process.channel.fileno() for link in links]
    return handles + [link.process.sentinel for link in links if link.process.sentinel is not None]
