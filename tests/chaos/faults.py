"""Faults for a run. Each is a function of the run, its paths and a random generator.

It returns a description of what it did, or None if it found nothing to break.
"""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable

from tests.chaos.hanging import FORWARD, OUTPUT
from tests.chaos.places import full, no_room
from tests.chaos.processes import ENCODER, WORKER, children
from tests.chaos.run import Place, Run

Fault = Callable[[Run, Place, random.Random], str | None]

FIND_S = 5.0
"""Seconds to look for a process to break."""


def kill_worker(run: Run, place: Place, rng: random.Random) -> str | None:
    """Kill a worker: SIGKILL as the out-of-memory killer sends it, SIGSEGV or SIGABRT as a driver causes them."""
    number = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
    if rng.random() < 0.7:  # aim at a forward: encoding takes longer, so random times seldom hit one
        seen = run.forwards
        run.wait_for(lambda: run.forwards > seen, FIND_S)
    return _signal_child(run, rng, WORKER, number)


def kill_ffmpeg(run: Run, place: Place, rng: random.Random) -> str | None:
    """Kill an encoder in the middle of a file."""
    return _signal_child(run, rng, ENCODER, signal.SIGKILL)


def kill_run(run: Run, place: Place, rng: random.Random) -> str | None:
    """Kill the parent with SIGKILL."""
    return "SIGKILL" if run.send(signal.SIGKILL) else None


def terminate_run(run: Run, place: Place, rng: random.Random) -> str | None:
    """Send SIGTERM to the parent, as a scheduler does."""
    return "SIGTERM" if run.send(signal.SIGTERM) else None


def terminate_all(run: Run, place: Place, rng: random.Random) -> str | None:
    """Send SIGTERM to every process of the job, as a cluster's scheduler does."""
    if not run.send(signal.SIGTERM):
        return None
    others = place.family.alive() - {run.pid}
    for pid in others:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    return f"SIGTERM to it and {len(others)} others"


def interrupt_run(run: Run, place: Place, rng: random.Random) -> str | None:
    """Press Ctrl-C once or twice."""
    if not run.send(signal.SIGINT):
        return None
    if rng.random() < 0.5:
        return "SIGINT"
    time.sleep(rng.random() * 0.1)
    run.send(signal.SIGINT)
    return "SIGINT twice"


def stop_run(run: Run, place: Place, rng: random.Random) -> str | None:
    """Suspend the parent for a moment."""
    if not run.send(signal.SIGSTOP):
        return None
    time.sleep(rng.uniform(0.05, 0.5))
    run.send(signal.SIGCONT)
    return "SIGSTOP, SIGCONT"


def stop_worker(run: Run, place: Place, rng: random.Random) -> str | None:
    """Suspend a worker for a moment."""
    workers = children(run.pid, WORKER)
    if not workers:
        return None
    pid = rng.choice(workers)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(rng.uniform(0.05, 0.5))
        os.kill(pid, signal.SIGCONT)
        return f"SIGSTOP, SIGCONT of {pid}"
    return None


def limit_files(run: Run, place: Place, rng: random.Random) -> str | None:
    """Keep every file of the parent from growing for a moment."""
    if run.over:
        return None
    with no_room(run.pid):
        _wait_for_failure(run, rng)
    return "no file may grow"


def fill_disk(run: Run, place: Place, rng: random.Random) -> str | None:
    """Fill the file system of the output folder for a moment."""
    if run.over:
        return None
    with full(place.out):
        _wait_for_failure(run, rng)
    return "ENOSPC"


def hang_forward(run: Run, place: Place, rng: random.Random) -> str | None:
    """Let a forward hang, as a kernel that does not end."""
    return _hang(run, place, FORWARD)


def hang_output(run: Run, place: Place, rng: random.Random) -> str | None:
    """Let the copy of an output hang, as a driver that waits for ever."""
    return _hang(run, place, OUTPUT)


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
"""Faults that need no privilege."""

HANGS = (hang_forward, hang_output)
"""Faults of HANGING, each of which costs the time-out of the run."""

DISK_FAULTS = (limit_files, fill_disk)


def _hang(run: Run, place: Place, fault: str) -> str | None:
    place.ask_to_hang(fault)
    run.wait_for(lambda: not place.is_asked_to_hang(fault), FIND_S)
    if place.is_asked_to_hang(fault):
        return None
    return f"the next {fault} hangs"


def _wait_for_failure(run: Run, rng: random.Random) -> None:
    before = run.failed.total()
    run.wait_for(lambda: run.failed.total() > before, rng.uniform(0.2, 2.5))  # the run waits for a second


def _signal_child(run: Run, rng: random.Random, kind: str, number: int) -> str | None:
    deadline = time.monotonic() + FIND_S
    while not run.over and time.monotonic() < deadline:
        if pids := children(run.pid, kind):
            pid = rng.choice(pids)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
                return f"{signal.Signals(number).name} to {kind} {pid}"
        time.sleep(0.001)
    return None
