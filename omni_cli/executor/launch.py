"""Starts a worker process and knows how it ended."""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO

from omni_cli.transport.channel import Channel

_LOG_TAIL_BYTES = 4000

KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
"""glibc gives a large tensor's memory back to the system when it is freed, and gets it back page by page, zeroed: 230,000 faults
and 0.8 of 6 s of CPU time for one 256x256x9 clip of the demo model. Kept instead, the faults are gone, for 13 % more resident memory.
A variable that the user has set counts. Other allocators do not look at these (mallopt(3)).
"""


@dataclass(slots=True)
class WorkerProcess:
    """A started worker: its process, our end of its channel, and a nameless file with what it wrote to stdout and stderr."""

    process: subprocess.Popen[bytes]
    channel: Channel
    log: IO[bytes]
    sentinel: int | None

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL; takes no lock that anybody waits with."""
        self.process.kill()

    def end(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for it to leave by itself, then kill it; always reaps it."""
        if self.sentinel is not None:  # Popen.wait would poll
            wait([self.sentinel], timeout)
            timeout = 0
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def ending(self) -> str:
        """How it ended, in words. The process must have been reaped."""
        code = self.process.returncode
        return f"was killed by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"

    def log_tail(self) -> str:
        """The end of what it wrote; the file's position is the worker's and is left alone."""
        size = os.fstat(self.log.fileno()).st_size
        tail = os.pread(self.log.fileno(), _LOG_TAIL_BYTES, max(0, size - _LOG_TAIL_BYTES))
        return tail.decode("utf-8", "replace").strip()

    def dispose(self) -> None:
        """Give back descriptors. The process must have been reaped."""
        self.channel.close()
        self.log.close()
        if self.sentinel is not None:
            os.close(self.sentinel)
            self.sentinel = None


def start_worker(command: tuple[str, ...] | None = None) -> WorkerProcess:
    """Spawn a worker: a fresh interpreter, in a process group of its own so that Ctrl-C reaches only the parent.

    `command` replaces `python -m omni_cli.worker`; the descriptor's number is appended. The worker looks for modules where
    this process does, and not in the working directory, whose files may have any name. Raises OSError.
    """
    program = command or (sys.executable, "-P", "-m", "omni_cli.worker")
    with ExitStack() as undo:
        channel, theirs = Channel.pair()
        undo.callback(channel.close)
        log = undo.enter_context(tempfile.TemporaryFile(buffering=0))
        with theirs:
            process = subprocess.Popen(
                [*program, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                process_group=0,
                env=worker_environment(),
            )
        undo.pop_all()
    return WorkerProcess(process, channel, log, _sentinel(process.pid))


def worker_environment() -> dict[str, str]:
    """This process's environment, with the allocator told to keep memory and Python to look for modules where this process does."""
    modules = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    return {**KEEP_MEMORY, **os.environ, "PYTHONPATH": modules}


def _sentinel(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None where there is none: its channel tells as well."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # an old kernel, a sandbox
        return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
