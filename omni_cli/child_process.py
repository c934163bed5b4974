"""Child processes whose output goes to a log in memory, the end of which explains a failure."""

import fcntl
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import IO, Self

from omni_cli.storage.memory_file import memory_file

_LOG_TAIL_BYTES = 4000
_MAX_LOG_BYTES = 1 << 20


@dataclass(slots=True)
class ChildProcess:
    """A started process and the file in memory with what it wrote.

    `sentinel` is a descriptor that becomes readable when the process ends; None where the system has no pidfd.
    """

    popen: subprocess.Popen[bytes]
    log: IO[bytes]
    sentinel: int | None

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        pipes: bool = False,
        pass_fds: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
    ) -> Self:
        """Start `command` in a process group of its own, so that Ctrl-C reaches only the parent.

        With `pipes`, stdin and stdout are pipes and only stderr goes to the log; without, stdin is empty and both go
        there. Raises OSError if the program cannot be started.
        """
        with ExitStack() as on_error:
            log = on_error.enter_context(memory_file(buffering=0))
            fcntl.fcntl(log, fcntl.F_SETFL, os.O_APPEND)  # the process goes on at the end of a log that was cut
            popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipes else log,
                stderr=log,
                pass_fds=pass_fds,
                process_group=0,
                env=env,
            )
            on_error.pop_all()
        return cls(popen, log, _open_sentinel(popen.pid))

    @property
    def pid(self) -> int:
        """The process id."""
        return self.popen.pid

    @property
    def stdin(self) -> IO[bytes]:
        """The write end of the process's standard input, if it was started with `pipes`."""
        assert self.popen.stdin is not None
        return self.popen.stdin

    @property
    def stdout(self) -> IO[bytes]:
        """The read end of the process's standard output, if it was started with `pipes`."""
        assert self.popen.stdout is not None
        return self.popen.stdout

    def kill(self) -> None:
        """Send SIGKILL. Takes no lock that another thread holds while it waits."""
        self.popen.kill()

    def wait_or_kill(self, timeout: float | None = None) -> int:
        """Wait up to `timeout` seconds (None: forever) for the process to exit, then kill it; return its exit code.

        The process is reaped. The code is negative if a signal ended it.
        """
        if self.sentinel is not None:  # Popen.wait with a timeout polls
            wait([self.sentinel], timeout)
            timeout = 0
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            return self.popen.wait()

    def exit_report(self) -> str:
        """Return how the process ended, such as "was killed by SIGKILL". It must have been reaped."""
        code = self.popen.returncode
        if code >= 0:
            return f"exited with code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"

    def log_tail(self) -> str:
        """Return the last 4000 bytes of the log as text. The process's write position is not moved."""
        size = os.fstat(self.log.fileno()).st_size
        tail = os.pread(self.log.fileno(), _LOG_TAIL_BYTES, max(0, size - _LOG_TAIL_BYTES))
        return tail.decode("utf-8", "replace").strip()

    def trim_log(self) -> None:
        """Keep only the end of a log that has become larger than 1 MiB: it lies in memory."""
        if os.fstat(self.log.fileno()).st_size > _MAX_LOG_BYTES:
            tail = self.log_tail()
            self.log.truncate(0)
            self.log.write(f"{tail}\n".encode())

    def close(self) -> None:
        """Close all descriptors. The process must have been reaped. May be called twice."""
        for file in (self.popen.stdin, self.popen.stdout, self.log):
            if file is not None:
                file.close()
        if self.sentinel is not None:
            os.close(self.sentinel)
            self.sentinel = None


def with_log_tail(report: str, tail: str) -> str:
    """Return `report`, such as an exit report, followed by the end of the log if there is one."""
    return f"{report}; its log ends with:\n{tail}" if tail else f"{report}; its log is empty"


def _open_sentinel(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # an old kernel, a sandbox
        return None
