"""A scripted run, and a pseudo-terminal."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

import pytest

from omni_cli.events import (
    AnyEvent,
    EncodeDone,
    EncodeStarted,
    ForwardDone,
    ForwardStarted,
    ForwardStep,
    ModelLoading,
    ModelReady,
    OutputArrived,
    RequestFinished,
    RunFinished,
    RunStarted,
)
from omni_cli.request import ErrorInfo, Interval, OutputFile, Status
from tests.factories import result


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait for the view's thread, at most ten seconds."""
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("the condition did not become true within ten seconds")


@pytest.fixture
def finish() -> Callable[..., RequestFinished]:
    """Makes the last event of a request: `finish(id, at, status, message, files)`."""

    def make(
        name: str, at: float, status: Status = "done", message: str = "disk full", files: tuple[str, ...] | None = None
    ) -> RequestFinished:
        paths = (files or (f"{name}.png",)) if status == "done" else ()
        outputs = tuple(OutputFile(path=p, sha256="0", bytes=1, width=8, height=8, frames=1) for p in paths)
        error = ErrorInfo(kind="write_failed", message=message) if status == "failed" else None
        return RequestFinished(at=at, result=result(name, status, files=outputs, error=error))

    return make


@pytest.fixture
def opening() -> list[AnyEvent]:
    """Events of a run of three requests until its model is ready at 12."""
    return [
        RunStarted(at=10, total=3, skipped=2, model="demo", output_dir="out"),
        ModelLoading(at=10.5, worker=0, what="transformer"),
        ModelReady(at=12, worker=0, pipeline="DemoPipeline", device="cpu", dtype="float32", seconds=1.5),
    ]


@pytest.fixture
def middle(finish: Callable[..., RequestFinished]) -> list[AnyEvent]:
    """Events until 16: `a` is done, `b` encoding since 15.5, `c` in its forward since 15, at step 4 of 8."""
    return [
        ForwardStarted(at=12, worker=0, ids=("a",)),
        ForwardDone(at=13.5, worker=0, ids=("a",), forward=Interval(12, 13.5)),
        ForwardStarted(at=13.5, worker=0, ids=("b",)),
        OutputArrived(at=14, worker=0, id="a", d2h=Interval(13.5, 14), bytes=1 << 20, copied=512),
        EncodeStarted(at=14, id="a"),
        EncodeDone(at=15, id="a", encode=Interval(14, 14.75), write=Interval(14.75, 15)),
        finish("a", 15),
        ForwardDone(at=15, worker=0, ids=("b",), forward=Interval(13.5, 15)),
        ForwardStarted(at=15, worker=0, ids=("c",)),
        OutputArrived(at=15.5, worker=0, id="b", d2h=Interval(15, 15.5), bytes=1 << 20, copied=512),
        EncodeStarted(at=15.5, id="b"),
        ForwardStep(at=16, worker=0, ids=("c",), step=4, total=8),
    ]


@pytest.fixture
def closing(finish: Callable[..., RequestFinished]) -> list[AnyEvent]:
    """Events until the end of the run: `b` is done, `c` failed in its forward."""
    return [
        EncodeDone(at=16.25, id="b", encode=Interval(15.5, 16), write=Interval(16, 16.25)),
        finish("b", 16.25),
        finish("c", 17, "failed", "out of memory [bold]\x1b[2J"),
        RunFinished(
            at=17,
            exit_code=1,
            done=2,
            failed=1,
            cancelled=0,
            skipped=2,
            not_run=0,
            seconds=5,
            output_hidden=0.5,
            device_idle=0.0,
            longest_gap=0.0,
        ),
    ]


class Terminal:
    """A pseudo-terminal with a thread that reads its other end; `hang_up` closes that end."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self._wake, self._waker = os.pipe()
        self.stream: TextIO = os.fdopen(slave, "w", encoding="utf-8")
        self._shown = bytearray()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while self._wake not in select.select([self._master, self._wake], [], [])[0]:
            self._shown += os.read(self._master, 1 << 16)
        while select.select([self._master], [], [], 0)[0]:
            self._shown += os.read(self._master, 1 << 16)
        os.close(self._master)

    def hang_up(self) -> None:
        """Read the rest and close the master end: from now on writes fail with EIO."""
        os.write(self._waker, b"x")
        self._reader.join()

    def shown(self) -> str:
        """Return the text written so far."""
        return self._shown.decode("utf-8", "replace")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """A terminal of 80 x 24 cells."""
    terminal = Terminal()
    fcntl.ioctl(terminal.stream, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    yield terminal
    terminal.hang_up()
    with contextlib.suppress(OSError):
        terminal.stream.close()
    for descriptor in (terminal._wake, terminal._waker):
        os.close(descriptor)
