"""What happens while the disk does not take what is rendered: no new forwards, patience, and an end to it.

    writer thread ── store(attempt) ──> stored ................. the outage is over: forwards go on, all who wait try again
                          └── StorageFault ──> forwards held ── back-off ──> attempt ── ... ── patience is over:
                                 others were stored meanwhile ──> this request fails alone       (too large for what is left)
                                 nothing was ──────────────────> StorageLost ends the run        (for all who wait)

What is computed stays where it is meanwhile, in the ring's slots, so memory does not grow. A folder that has gone - deleted,
moved, unmounted - does not come back as the one that this run holds: that is the end at once.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from omni_cli.batch.stop import Stop
from omni_cli.errors import RequestCancelled, StorageFault, StorageLost
from omni_cli.log import logger

FIRST_DELAY_S, LONGEST_DELAY_S = 0.5, 30.0

RUN_AGAIN = "what is stored is kept: put it right and run the same command again, it goes on from here"

T = TypeVar("T")


class Storage:
    """The output folder as all writer threads see it: it takes files, or it does not."""

    def __init__(
        self,
        root: Path,
        patience: float,
        *,
        note: Callable[[str], None] = lambda text: None,
        hold: Callable[[bool], None] = lambda held: None,
        stop: Stop | None = None,
        first_delay: float = FIRST_DELAY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`root` exists. `patience` in seconds. `note` shows a line; `hold` keeps forwards from beginning, or lets them again."""
        self._root = root
        self._patience = patience
        self._note = note
        self._hold = hold
        self._stop = stop or Stop()
        self._first_delay = first_delay
        self._clock = clock
        self._identity = root.stat()
        self._changed = threading.Condition()
        self._stored_at = clock()
        self._failing = False
        self._lost: StorageLost | None = None

    def store(self, attempt: Callable[[], T]) -> T:
        """What `attempt` gives, tried until the disk takes it.

        Raises StorageFault if only this cannot be stored, StorageLost if nothing can, RequestCancelled at a stop meanwhile; and
        what else `attempt` raises.
        """
        since = self._clock()
        for delay in self._delays():
            self._check()
            try:
                stored = attempt()
            except StorageFault as fault:
                self._wait(fault, since, delay)
            else:
                self._over()
                return stored
        raise AssertionError("the delays do not end")

    @property
    def failing(self) -> bool:
        """True while the disk takes nothing: a request waits to be stored."""
        return self._failing

    def _delays(self) -> Iterator[float]:
        delay = self._first_delay
        while True:
            yield delay
            delay = min(2 * delay, LONGEST_DELAY_S)

    def _check(self) -> None:
        """Raise StorageLost if that has happened, or the folder is not the one that the run began with."""
        if self._lost is not None:
            raise self._lost
        try:
            same = os.path.samestat(self._root.stat(), self._identity)
        except (FileNotFoundError, NotADirectoryError):
            same = False
        except OSError:
            return  # a disk that does not answer: the attempt will tell
        if not same:
            raise self._end(
                f"the output folder {str(self._root)!r} is not there any more: it was deleted, moved or unmounted; {RUN_AGAIN}"
            )

    def _wait(self, fault: StorageFault, since: float, delay: float) -> None:
        """Let `delay` seconds pass, or less if something changes; raise if that is of no use."""
        self._begin(fault)
        left = since + self._patience - self._clock()
        if left <= 0:
            if self._stored_at > since:
                raise fault
            raise self._end(f"nothing could be stored for {self._patience:g} s: {fault}; {RUN_AGAIN}")
        with self._stop.waking(self._wake), self._changed:
            if not self._stop.requested and self._lost is None:
                self._changed.wait(min(delay, left))
        if self._stop.requested:
            self._wake()
            raise RequestCancelled(f"stopped while it could not be stored: {fault}")

    def _begin(self, fault: StorageFault) -> None:
        """An outage: said once, and no forward begins."""
        with self._changed:
            if self._failing:
                return
            self._failing = True
            self._hold(True)  # under the lock: in the order in which it failed and worked again
        logger.error("storing has failed", exc_info=fault)
        self._note(f"{fault}; no new forwards until the disk takes files again, for at most {self._patience:g} s")

    def _over(self) -> None:
        """Something was stored: whoever waits may try again."""
        with self._changed:
            self._stored_at = self._clock()
            if not self._failing:
                return
            self._failing = False
            self._hold(False)
            self._changed.notify_all()
        self._note("the disk takes files again: going on")

    def _end(self, text: str) -> StorageLost:
        """The first end stands, for everybody."""
        with self._changed:
            self._lost = self._lost or StorageLost(text)
            self._changed.notify_all()
            return self._lost

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
