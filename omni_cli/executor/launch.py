"""Starts a worker process and knows how it ended."""

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import IO

from omni_cli.transport.channel import Channel

_LOG_TAIL_BYTES = 4000


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

    def end(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for it to leave by itself, then kill it; always reaps it."""
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def obituary(self) -> str:
        """How it ended, and the end of its log. The process must have been reaped."""
        code = self.process.returncode
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"
        self.log.flush()
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - _LOG_TAIL_BYTES))
        tail = self.log.read().decode("utf-8", "replace").strip()
        return f"{how}; its log ends with:\n{tail}" if tail else f"{how}; its log is empty"

    def dispose(self) -> None:
        """Give back descriptors. The process must have been reaped."""
        self.channel.close()
        self.log.close()
        if self.sentinel is not None:
            os.close(self.sentinel)
            self.sentinel = None


def start_worker(command: tuple[str, ...] | None = None) -> WorkerProcess:
    """Spawn a worker: a fresh interpreter, in a process group of its own so that Ctrl-C reaches only the parent.

    `command` replaces `python -m omni_cli.worker`; the descriptor's number is appended.
    """
    channel, theirs = Channel.pair()
    log = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the WorkerProcess owns it
    program = command or (sys.executable, "-m", "omni_cli.worker")
    try:
        process = subprocess.Popen(
            [*program, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=[theirs.fileno()],
            process_group=0,
        )
    finally:
        theirs.close()
    sentinel = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else None
    return WorkerProcess(process, channel, log, sentinel)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
