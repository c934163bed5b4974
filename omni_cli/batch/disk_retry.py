"""Retries while the disk does not take files: no new forwards, growing delays, and a limit to the patience.

    writer thread ── store(attempt) ──> stored ........... the outage is over: forwards resume, waiting threads retry
                          └── StorageError ──> forwards paused ── delay ──> attempt ── ... ── patience exceeded:
                                 something else was stored meanwhile ──> this request fails alone   (it is too large)
                                 nothing was stored ───────────────────> StorageUnavailable ends the run

Computed outputs stay in the ring's slots meanwhile, so memory does not grow. If the folder itself is deleted, moved or
unmounted, the run ends at once: a new folder of that name would lack the rows and files of this run.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from omni_cli.batch.stop import Stop
from omni_cli.errors import RequestCancelled, StorageError, StorageUnavailable
from omni_cli.log import logger

FIRST_DELAY_S, LONGEST_DELAY_S = 0.5, 30.0

RUN_AGAIN = "finished requests are kept: fix the disk and run the same command again to continue"

T = TypeVar("T")


class DiskRetry:
    """The state of the output folder, shared by all writer threads: it takes files, or it is failing."""

    def __init__(
        self,
        root: Path,
        patience: float,
        *,
        notify: Callable[[str], None] = lambda text: None,
        pause_forwards: Callable[[bool], None] = lambda paused: None,
        stop: Stop | None = None,
        first_delay: float = FIRST_DELAY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`root` is the existing output folder, `patience` and `first_delay` are in seconds.

        `notify` shows a line to people. `pause_forwards` is called with True when an outage begins, with False when it
        ends.
        """
        self._root = root
        self._patience = patience
        self._notify = notify
        self._pause_forwards = pause_forwards
        self._stop = stop or Stop()
        self._first_delay = first_delay
        self._clock = clock
        self._identity = root.stat()
        self._changed = threading.Condition()
        self._last_stored = clock()
        self._failing = False
        self._lost: StorageUnavailable | None = None

    @property
    def failing(self) -> bool:
        """Whether an outage is on: some request waits to be stored."""
        return self._failing

    def store(self, attempt: Callable[[], T]) -> T:
        """Call `attempt` until the disk takes its file, and return its result.

        Raises StorageError if this file alone cannot be stored, StorageUnavailable if none can, RequestCancelled if a
        stop is requested meanwhile, and any other exception of `attempt`.
        """
        since, delays = self._clock(), self._delays()
        while True:
            self._check_folder()
            try:
                stored = attempt()
            except StorageError as fault:
                self._wait(fault, since, next(delays))
            else:
                self._end_outage()
                return stored

    def _delays(self) -> Iterator[float]:
        delay = self._first_delay
        while True:
            yield delay
            delay = min(2 * delay, LONGEST_DELAY_S)

    def _check_folder(self) -> None:
        """Raise StorageUnavailable if the run has lost its storage, or the folder is not the one it began with."""
        if self._lost is not None:
            raise self._lost
        try:
            same = os.path.samestat(self._root.stat(), self._identity)
        except (FileNotFoundError, NotADirectoryError):
            same = False
        except OSError:
            return  # the disk does not answer: the attempt will report it
        if not same:
            raise self._lose(
                f"the output folder {str(self._root)!r} no longer exists: it was deleted, moved or unmounted;"
                f" {RUN_AGAIN}"
            )

    def _wait(self, fault: StorageError, since: float, delay: float) -> None:
        """Wait `delay` seconds, less if something changes.

        Raises as `store` if there is no point in another attempt.
        """
        self._begin_outage(fault)
        remaining = since + self._patience - self._clock()
        if remaining <= 0:
            if self._last_stored > since:
                raise fault
            raise self._lose(f"nothing could be stored for {self._patience:g} s: {fault}; {RUN_AGAIN}")
        with self._stop.waking(self._wake), self._changed:
            if not self._stop.requested and self._lost is None:
                self._changed.wait(min(delay, remaining))
        if self._stop.requested:
            self._wake()
            raise RequestCancelled(f"stopped before it could be stored: {fault}")

    def _begin_outage(self, fault: StorageError) -> None:
        with self._changed:
            if self._failing:
                return
            self._failing = True
            self._pause_forwards(True)  # under the lock, so that pauses and resumes keep their order
        logger.error("storing has failed", exc_info=fault)
        self._notify(f"{fault}; no new forwards until the disk takes files again, for at most {self._patience:g} s")

    def _end_outage(self) -> None:
        """Record that a file was stored; if an outage was on, resume forwards and let waiting threads retry."""
        with self._changed:
            self._last_stored = self._clock()
            if not self._failing:
                return
            self._failing = False
            self._pause_forwards(False)
            self._changed.notify_all()
        self._notify("the disk takes files again: resuming")

    def _lose(self, text: str) -> StorageUnavailable:
        """Return the error that ends the run, the same for every thread: the first."""
        with self._changed:
            self._lost = self._lost or StorageUnavailable(text)
            self._changed.notify_all()
            return self._lost

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
