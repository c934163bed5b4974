"""Ctrl-C and SIGTERM while a run is on: once to finish what is computed, twice to leave at once."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass(slots=True)
class Caught:
    """The first signal that came, 0 if none."""

    number: int = 0

    def exit_code(self, code: int) -> int:
        """`code`, or 128 + signal where the run was cut short (130 for Ctrl-C, 143 for SIGTERM)."""
        return 128 + self.number if self.number and code == _INTERRUPTED else code


_INTERRUPTED = 130


@contextmanager
def stopping(on_first: Callable[[], None], on_second: Callable[[], None]) -> Iterator[Caught]:
    """Handle SIGINT and SIGTERM: the first calls `on_first`, the second `on_second` and ends the process at once."""
    caught = Caught()

    def handle(number: int, frame: FrameType | None) -> None:
        if not caught.number:
            caught.number = number
            on_first()
            return
        on_second()
        # Nothing below is waited for: writer threads may hang in a dead disk, a worker in a dead driver.
        os._exit(128 + caught.number)

    old = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
