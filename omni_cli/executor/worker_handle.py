"""The parent's side of one worker process: start it, send to it, and describe it in the log."""

import contextlib
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omni_cli.child_process import ChildProcess
from omni_cli.config import ModelConfig
from omni_cli.request import UNNAMED_DEVICE, ExecutedOn
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel
from omni_cli.transport.ring import SlotViews

KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
"""Makes glibc keep freed memory (mallopt(3)). By default it returns a large tensor's pages to the system.

For one 256x256x9 clip of the demo model on a CPU, getting them back zeroed takes 230,000 page faults and 0.8 of 6 s of
CPU time; keeping the pages costs 13 % more resident memory. Variables that the user has set take precedence.
"""


BOUNDED_SPIN = {"GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "1"}
"""Makes intra-op threads that wait for work sleep soon: libgomp after so many turns, Intel's and LLVM's after 1 ms.

By default they spin for minutes (libgomp) or 200 ms, against whatever else computes on the cores: on two cores beside
other programs, 16 clips of 64x64x9 took 43 s with the bound and 122 s without.
https://gcc.gnu.org/onlinedocs/libgomp/GOMP_005fSPINCOUNT.html
"""


@dataclass(frozen=True, slots=True)
class SlotInUse:
    """A ring slot that the parent reads for `output_id`, since `since` seconds on the executor's clock."""

    output_id: str
    since: float


@dataclass(slots=True, eq=False)
class WorkerHandle:
    """One worker process and the parent's end of its channel. A restart replaces the whole handle.

    `started_at` is when the process was started, or when it began to load another model. `load_rpc_id` is the id of the
    last LoadModel, `model` the model that it names; `ready` says that the model is loaded, and `executes_on` where. A
    worker that is `retired` was ended and is not replaced.
    `last_message_at` is when the last message arrived. All times are in seconds on the executor's clock.
    `slots_in_use` is indexed by slot id; any thread may remove entries. `kill_reason` says why the parent killed the
    process, if it did.
    """

    index: int
    process: ChildProcess
    channel: Channel
    started_at: float
    views: SlotViews = field(default_factory=SlotViews)
    load_rpc_id: int | None = None
    model: ModelConfig | None = None
    ready: bool = False
    retired: bool = False
    executes_on: ExecutedOn = UNNAMED_DEVICE
    kill_reason: str | None = None
    last_message_at: float = 0.0
    slots_in_use: dict[int, SlotInUse] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.last_message_at = self.started_at

    @property
    def name(self) -> str:
        """The worker's name in messages to the user."""
        return f"worker {self.index} (pid {self.process.pid})"

    def send(self, message: m.ToWorker) -> None:
        """Send `message`. A worker that is gone is ignored: the pump sees its exit."""
        with contextlib.suppress(OSError):
            self.channel.send(m.encode(message))

    def kill(self, reason: str) -> None:
        """Kill the process; the pump sees its exit. The first reason is kept."""
        self.kill_reason = self.kill_reason or reason
        self.process.kill()

    @property
    def was_killed_by_system(self) -> bool:
        """Whether a signal that this process did not send ended the worker. It must have been reaped."""
        return self.kill_reason is None and self.process.popen.returncode < 0

    def exit_report(self) -> str:
        """Return how the worker ended, in words. It must have been reaped."""
        return f"{self.name} {self.kill_reason or self.process.exit_report()}"

    def close(self) -> None:
        """Close all descriptors and unmap the ring. The process must have been reaped. May be called twice."""
        self.views.close()
        self.channel.close()
        self.process.close()

    def describe(self, now: float) -> str:
        """Return one line for the log: ready or not, seconds since the last message, slots in use."""
        state = "ready" if self.ready else "not ready"
        slots = [
            f"slot {slot_id} read by {slot.output_id} for {now - slot.since:.1f} s"
            for slot_id, slot in sorted(self.slots_in_use.copy().items())
        ]
        silent = f"last message {now - self.last_message_at:.1f} s ago"
        return f"{self.name}: {state}, {silent}; {', '.join(slots) or 'no slot in use'}"


def start_worker(index: int, now: float, command: tuple[str, ...] | None = None) -> WorkerHandle:
    """Start worker `index` in a fresh interpreter.

    `command` replaces `python -m omni_cli.worker`; the channel's descriptor number is appended. The worker imports
    modules from where this process does, and not from the working directory. Raises OSError if the program cannot be
    started.
    """
    program = command or (sys.executable, "-P", "-m", "omni_cli.worker")
    channel, worker_end = Channel.pair()
    with worker_end:
        fd = worker_end.fileno()
        try:
            process = ChildProcess.start([*program, str(fd)], pass_fds=[fd], env=worker_environment())
        except OSError:
            channel.close()
            raise
    return WorkerHandle(index, process, channel, now)


def worker_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return `environ` with KEEP_MEMORY, BOUNDED_SPIN unless it says how threads wait, and this process's modules."""
    modules = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    spin = {} if "OMP_WAIT_POLICY" in environ else BOUNDED_SPIN
    return {**KEEP_MEMORY, **spin, **environ, "PYTHONPATH": modules}


def close_fds(fds: Iterable[int]) -> None:
    """Close descriptors that came with a message and are not used."""
    for fd in fds:
        os.close(fd)
