"""What can happen to a run, each as a function: it gets the run, its place and the dice, and says what it did, or None."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable

from tests.chaos.places import full, no_room
from tests.chaos.processes import FFMPEG, WORKER, children
from tests.chaos.run import Place, Run

Fault = Callable[[Run, Place, random.Random], str | None]

FIND_S = 5.0
"""How long a fault looks for its victim."""


def kill_worker(run: Run, place: Place, dice: random.Random) -> str | None:
    """SIGKILL, as the out-of-memory killer does; SIGSEGV or SIGABRT, as a driver does."""
    number = dice.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
    if dice.random() < 0.7:  # in the middle of a forward, which is otherwise seldom met: encoding takes longer
        seen = run.forwards
        run.wait_for(lambda: run.forwards > seen, FIND_S)
    return _signal_child(run, dice, WORKER, number)


def kill_ffmpeg(run: Run, place: Place, dice: random.Random) -> str | None:
    """The encoder dies in the middle of a file."""
    return _signal_child(run, dice, FFMPEG, signal.SIGKILL)


def kill_run(run: Run, place: Place, dice: random.Random) -> str | None:
    """kill -9 of the parent."""
    return "SIGKILL" if run.send(signal.SIGKILL) else None


def terminate_run(run: Run, place: Place, dice: random.Random) -> str | None:
    """SIGTERM, as a scheduler sends it."""
    return "SIGTERM" if run.send(signal.SIGTERM) else None


def terminate_all(run: Run, place: Place, dice: random.Random) -> str | None:
    """SIGTERM to every process of the job, as a cluster's scheduler sends it."""
    if not run.send(signal.SIGTERM):
        return None
    others = place.family.alive() - {run.pid}
    for pid in others:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    return f"SIGTERM to it and {len(others)} others"


def interrupt_run(run: Run, place: Place, dice: random.Random) -> str | None:
    """Ctrl-C, once or twice."""
    if not run.send(signal.SIGINT):
        return None
    if dice.random() < 0.5:
        return "SIGINT"
    time.sleep(dice.random() * 0.1)
    run.send(signal.SIGINT)
    return "SIGINT twice"


def stop_run(run: Run, place: Place, dice: random.Random) -> str | None:
    """The parent sleeps for a moment."""
    if not run.send(signal.SIGSTOP):
        return None
    time.sleep(dice.uniform(0.05, 0.5))
    run.send(signal.SIGCONT)
    return "SIGSTOP, SIGCONT"


def stop_worker(run: Run, place: Place, dice: random.Random) -> str | None:
    """A worker sleeps for a moment."""
    workers = children(run.pid, WORKER)
    if not workers:
        return None
    pid = dice.choice(workers)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(dice.uniform(0.05, 0.5))
        os.kill(pid, signal.SIGCONT)
        return f"SIGSTOP, SIGCONT of {pid}"
    return None


def limit_files(run: Run, place: Place, dice: random.Random) -> str | None:
    """No file of the parent can grow for a moment."""
    if run.over:
        return None
    with no_room(run.pid):
        _wait_for_failure(run, dice)
    return "no file may grow"


def fill_disk(run: Run, place: Place, dice: random.Random) -> str | None:
    """The file system of the output folder is full for a moment."""
    if run.over:
        return None
    with full(place.out):
        _wait_for_failure(run, dice)
    return "ENOSPC"


EVERYWHERE: tuple[Fault, ...] = (
    kill_worker,
    kill_ffmpeg,
    kill_run,
    terminate_run,
    terminate_all,
    interrupt_run,
    stop_run,
    stop_worker,
    limit_files,
)
"""What needs no privilege."""

OF_THE_DISK = (limit_files, fill_disk)


def _wait_for_failure(run: Run, dice: random.Random) -> None:
    before = run.failed.total()
    run.wait_for(lambda: run.failed.total() > before, dice.uniform(0.2, 2.5))  # the run waits for a second


def _signal_child(run: Run, dice: random.Random, kind: str, number: int) -> str | None:
    deadline = time.monotonic() + FIND_S
    while not run.over and time.monotonic() < deadline:
        if pids := children(run.pid, kind):
            pid = dice.choice(pids)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
                return f"{signal.Signals(number).name} to {kind} {pid}"
        time.sleep(0.001)
    return None
